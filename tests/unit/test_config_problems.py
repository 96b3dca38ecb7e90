"""Every problem and note of a configuration, word for word."""

from collections.abc import Mapping

import pytest

from replication.config.values import Raw
from tests.support.settings import IDENTITY, ONE_FLOW, TWO_CLUSTERS, parse_settings, problems_of

NOTHING_RUNS = "A->B.enabled: no flow is enabled, and no heartbeats; write true for at least one"


def test_notes_name_the_keys_without_effect_and_the_risky_ones() -> None:
    config = parse_settings(
        {
            **ONE_FLOW,
            "tasks.max": "10",
            "offset.storage.replication.factor": "1",
            "B.exactly.once.source.support": "enabled",
            "A->B.key.converter": "x",
            "A->B.metric.names.formats": "new",
            "A.consumer.group.id": "g",
            "B.security.protocol": "SASL_PLAINTEXT",
            "topic.filter.class": "org.apache.kafka.connect.mirror.DefaultTopicFilter",
            "config.providers": "file",
            "config.providers.file.class": "x.FileConfigProvider",
            "transforms": "",
        }
    )

    assert config.notes == (
        "tasks.max: has no effect: a key of Kafka Connect; the mirror has no workers or connectors",
        (
            "offset.storage.replication.factor: has no effect: a key of Kafka Connect's internal "
            "topics; the mirror stores positions in Delta tables"
        ),
        (
            "B.exactly.once.source.support: has no effect: a flow writes each record once without "
            "transactions; see the guarantees"
        ),
        "A->B.key.converter: has no effect: records are always copied as unchanged bytes",
        "A->B.metric.names.formats: accepted, but not implemented in this version",
        "A.consumer.group.id: has no effect: the mirror reads without a consumer group",
    )


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        pytest.param({"topcis": "a"}, "topcis: unknown key; did you mean topics?", id="typo"),
        pytest.param(
            {"A.topics": "a"},
            "A.topics: is a flow key; write B->A.topics or topics",
            id="flow's key at a cluster",
        ),
        pytest.param(
            {"isolation.level": "read_committed"},
            "isolation.level: is a client property; write A.isolation.level",
            id="client's key at top level",
        ),
        pytest.param(
            {"A->B.isolation.level": "read_committed"},
            "A->B.isolation.level: is a client property; write for example "
            "A->B.source.consumer.isolation.level",
            id="client's key at a flow",
        ),
        pytest.param(
            {"A->B.state.dir": "/x"},
            "A->B.state.dir: is a top-level key; write state.dir",
            id="file's key at a flow",
        ),
        pytest.param(
            {"X.bootstrap.servers": "a:1"},
            "X.bootstrap.servers: unknown cluster 'X'; clusters: A, B",
            id="unknown cluster",
        ),
        pytest.param(
            {"A->X.topics": "a"},
            "A->X.topics: unknown cluster 'X'; clusters: A, B",
            id="unknown target",
        ),
        pytest.param(
            {"A->A.enabled": "true"},
            "A->A.enabled: source and target are both 'A'; use two clusters",
            id="source is target",
        ),
        pytest.param(
            {"A->B.source.cluster.alias": "C"},
            "A->B.source.cluster.alias: 'C' must be 'A'; remove the key",
            id="another alias",
        ),
        pytest.param(
            {"A->B.transforms": "route"},
            "A->B.transforms: transforms are not supported, and the records would differ "
            "without them; remove it",
            id="transforms",
        ),
        pytest.param(
            {"replication.policy.class": "com.acme.Own"},
            "replication.policy.class: 'com.acme.Own' is invalid; write "
            "org.apache.kafka.connect.mirror.DefaultReplicationPolicy, "
            "DefaultReplicationPolicy, org.apache.kafka.connect.mirror.IdentityReplicationPolicy, "
            "IdentityReplicationPolicy or "
            "io.strimzi.kafka.connect.mirror.IdentityReplicationPolicy",
            id="custom policy",
        ),
        pytest.param(
            {"A->B.enabled": "yes"},
            "A->B.enabled: 'yes' is invalid; write true or false",
            id="flag",
        ),
        pytest.param(
            {"replication.factor": "0"},
            "replication.factor: '0' is invalid; write 1 or more, or -1 for the cluster's default",
            id="factor",
        ),
        pytest.param(
            {"refresh.topics.interval.seconds": "1m"},
            "refresh.topics.interval.seconds: '1m' is invalid; write a whole number, for example "
            "600",
            id="number",
        ),
        pytest.param(
            {"replication.realtime.batch.seconds": "4"},
            "replication.realtime.batch.seconds: '4' is invalid; write 5 or more",
            id="too small",
        ),
        pytest.param(
            {"replication.mode": "fast"},
            "replication.mode: 'fast' is invalid; write auto, realtime, microbatch or drain",
            id="mode",
        ),
        pytest.param(
            {"record.timestamps": "x"},
            "record.timestamps: 'x' is invalid; write preserve or broker",
            id="timestamps",
        ),
        pytest.param(
            {"metric.names.formats": "new,x"},
            "metric.names.formats: 'new,x' is invalid; the items must be legacy or new",
            id="item",
        ),
        pytest.param(
            {"offset-syncs.topic.location": "both"},
            "offset-syncs.topic.location: 'both' is invalid; write source or target",
            id="location",
        ),
        pytest.param(
            {"state.dir": "state"},
            "state.dir: 'state' is relative; write an absolute path or a URI such as "
            "s3a://bucket/folder",
            id="relative state.dir",
        ),
        pytest.param(
            {"B.bootstrap.servers": "b:1, b"},
            "B.bootstrap.servers: 'b' is not "
            "host:port; write for example broker-1:9092,broker-2:9092",
            id="no port",
        ),
        pytest.param(
            {"B.bootstrap.servers": "b:99999"},
            "B.bootstrap.servers: 'b:99999' is not "
            "host:port; write for example broker-1:9092,broker-2:9092",
            id="wrong port",
        ),
        pytest.param(
            {"A.isolation.level": "x"},
            "A.isolation.level: 'x' is invalid; write read_uncommitted or read_committed",
            id="isolation",
        ),
        pytest.param(
            {"A.consumer.isolation.level": "READ_COMMITTED"},
            "A.consumer.isolation.level: 'READ_COMMITTED' is invalid; write read_uncommitted or "
            "read_committed",
            id="isolation in upper case, as Java's client does not take it",
        ),
        pytest.param(
            {"A.consumer.auto.offset.reset": "EARLIEST"},
            "A.consumer.auto.offset.reset: 'EARLIEST' is invalid; write earliest or latest",
            id="reset in upper case",
        ),
        pytest.param(
            {"A.consumer.auto.offset.reset": "none"},
            "A.consumer.auto.offset.reset: 'none' is invalid; write earliest or latest",
            id="reset",
        ),
        pytest.param(
            {"B.producer.linger.ms": "5s"},
            "B.producer.linger.ms: '5s' is invalid; write a whole number",
            id="client's number",
        ),
        pytest.param(
            {"A.consumer.max.poll.record": "5"},
            "A.consumer.max.poll.record: unknown property of this client; did you mean "
            "'max.poll.records'?",
            id="client's typo",
        ),
        pytest.param(
            {"A.consumer.linger.ms": "5"},
            "A.consumer.linger.ms: is a property of a different kind of client; remove it",
            id="another client's",
        ),
        pytest.param(
            {
                "A.sasl.jaas.config": "hunter2",
                "A.security.protocol": "SASL_SSL",
                "A.sasl.mechanism": "PLAIN",
            },
            "A.sasl.jaas.config: invalid, expected 'required' after the class name (value "
            "not shown)",
            id="JAAS",
        ),
        pytest.param(
            {"A.ssl.key.passwort": "x"},
            "A.ssl.key.passwort: unknown property of this client; did you mean 'ssl.key.password'?",
            id="typo in a security key",
        ),
    ],
)
def test_each_problem_by_itself(settings: dict[str, Raw], expected: str) -> None:
    assert [text for text in problems_of({**ONE_FLOW, **settings}) if "no flow" not in text] == [
        expected
    ]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        pytest.param(
            {},
            ["clusters: missing; list the aliases, for example clusters: [east, west]"],
            id="none",
        ),
        pytest.param(
            {**TWO_CLUSTERS, "emit.heartbeats.enabled": "false"},
            [NOTHING_RUNS],
            id="neither flows nor heartbeats",
        ),
        pytest.param(
            {"clusters": "A", "A.bootstrap.servers": "a:1"}, [NOTHING_RUNS], id="one cluster"
        ),
        pytest.param(
            {"clusters": "A,B,A", "A->B.enabled": "true"},
            [
                "clusters: 'A' is listed twice; remove one",
                "A.bootstrap.servers: missing; write for example broker-1:9092,broker-2:9092",
                "B.bootstrap.servers: missing; write for example broker-1:9092,broker-2:9092",
            ],
            id="twice, and no addresses",
        ),
        pytest.param(
            {**ONE_FLOW, "clusters": ("A", "B", "a/b")},
            [
                (
                    "clusters: 'a/b' is not a valid alias: use A-Z a-z 0-9 . _ - (it becomes part "
                    "of topic names)"
                )
            ],
            id="alias",
        ),
    ],
)
def test_problems_of_the_cluster_list(settings: Mapping[str, Raw], expected: list[str]) -> None:
    assert problems_of(settings) == expected


def test_without_a_flow_all_problems_are_reported_at_once_as_well() -> None:
    settings = {
        **TWO_CLUSTERS,
        "topcis": "a",
        "B.security.protocol": "SASL_SSL",
        "B.sasl.mechanism": "PLAIN",
        "A->B.replication.policy.separator": "/",
        "B->A.replication.mode": "x",
        "state.dir": "here",
    }

    assert sorted(text.partition(":")[0] for text in problems_of(settings)) == [
        "A->B.replication.policy.separator",
        "B->A.replication.mode",
        "B.sasl.jaas.config",
        "state.dir",
        "topcis",
    ]


def test_all_problems_are_reported_at_once_in_file_order() -> None:
    settings = {**ONE_FLOW, "replication.mode": "x", "topcis": "a", "A->B.replication.factor": "z"}
    lines = {"replication.mode": 9, "topcis": 3, "A->B.replication.factor": 5}

    assert problems_of(settings, lines) == [
        "topcis: unknown key; did you mean topics? (line 3)",
        "A->B.replication.factor: 'z' is invalid; write a whole number, for example 2 (line 5)",
        ("replication.mode: 'x' is invalid; write auto, realtime, microbatch or drain (line 9)"),
    ]


def test_remote_topics_are_not_deleted_under_identity_naming() -> None:
    settings = {"replication.deletions.enabled": "true", "replication.policy.class": IDENTITY}

    assert problems_of({**ONE_FLOW, **settings}) == [
        (
            "replication.deletions.enabled: is not possible under IdentityReplicationPolicy, where "
            "a remote topic cannot be told from the target's own topics; write false"
        )
    ]
