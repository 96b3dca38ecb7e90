"""Every problem and note of a configuration, word for word."""

import pickle
from collections.abc import Mapping

import pytest

from replication.config.clients.secrets import MASK
from replication.config.parse import parse
from replication.config.values import Diagnostics, Raw
from replication.errors import ConfigError
from tests.support.settings import IDENTITY, ONE_FLOW, TWO_CLUSTERS, parse_settings, problems_of

THREE_CLUSTERS = {
    **TWO_CLUSTERS,
    "clusters": "A, B, C",
    "C.bootstrap.servers": "c:1",
    "A->C.enabled": "true",
}
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


END_LOOPS = (
    "these flows replication.provenance.header.enabled=true and the topics in "
    "replication.aggregate.topics"
)
ENDING = {
    "replication.provenance.header.enabled": "true",
    "replication.aggregate.topics": ".*",
}
DECLARE = "name it in replication.aggregate.topics of both flows, which then copy it at least once"


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        pytest.param(
            {"B->C.enabled": "true", "topics": "orders"},
            "B->C.topics: orders would be written by A->C too, and a topic can have only "
            f"one writer; use B->C.topics.exclude, or {DECLARE}",
            id="same name",
        ),
        pytest.param(
            {
                "B->C.enabled": "true",
                "topics": "orders",
                "B->C.replication.aggregate.topics": "orders",
            },
            "B->C.topics: orders would be written by A->C too, and a topic can have only "
            f"one writer; use B->C.topics.exclude, or {DECLARE}",
            id="declared by one of two",
        ),
        pytest.param(
            {"B->C.enabled": "true", "A->C.topics": "orders", "B->C.topics": "ord.*"},
            "B->C.topics: orders would be written by A->C too, and a topic can have only "
            f"one writer; use B->C.topics.exclude, or {DECLARE}",
            id="a name that the other's regex matches",
        ),
        pytest.param(
            {"C->A.enabled": "true"},
            "C->A.topics: replication loop: A -> C -> A would copy .* without end under "
            "IdentityReplicationPolicy; use C->A.topics.exclude, or for each of " + END_LOOPS,
            id="a loop",
        ),
        pytest.param(
            {"C->A.enabled": "true", **ENDING, "A->C.replication.aggregate.topics": "x"},
            "C->A.topics: replication loop: A -> C -> A would copy .* without end under "
            "IdentityReplicationPolicy; use C->A.topics.exclude, or for each of " + END_LOOPS,
            id="a loop that only one flow ends",
        ),
        pytest.param(
            {"C->A.enabled": "true", "A->C.topics": "orders", "C->A.topics": "ord.*"},
            "C->A.topics: replication loop: A -> C -> A would copy orders without end under "
            "IdentityReplicationPolicy; use C->A.topics.exclude, or for each of " + END_LOOPS,
            id="a loop of a name that the other's regex matches",
        ),
        pytest.param(
            {"C->B.enabled": "true", "B->A.enabled": "true", "topics": "orders, o.*"},
            "B->A.topics: replication loop: A -> C -> B -> A would copy o.*, orders without end "
            "under IdentityReplicationPolicy; use B->A.topics.exclude, or for each of " + END_LOOPS,
            id="a loop of three flows",
        ),
    ],
)
def test_identity_flows_that_share_a_topic_are_rejected(
    settings: dict[str, Raw], expected: str
) -> None:
    identity = {**THREE_CLUSTERS, "replication.policy.class": IDENTITY, **settings}

    assert problems_of(identity) == [expected]


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({"B->C.enabled": "true", "A->C.topics": "a", "B->C.topics": "b"}, id="apart"),
        pytest.param(
            {
                "B->C.enabled": "true",
                "topics": "a,b",
                "B->C.topics.exclude": "a",
                "A->C.topics.exclude": "b",
            },
            id="excluded",
        ),
        pytest.param({"B->C.enabled": "true"}, id="regexes alone are not compared"),
        pytest.param(
            {"C->A.enabled": "true", "A->C.topics": "a", "C->A.topics": "b"}, id="both ways, apart"
        ),
        pytest.param(
            {"C->A.enabled": "true", "topics": "a,b", "C->A.topics.exclude": "a,b"},
            id="both ways, excluded",
        ),
        pytest.param({"A->B.enabled": "true", "topics": "a"}, id="one source, two targets"),
        pytest.param(
            {"B->C.enabled": "true", "topics": "a", "replication.aggregate.topics": "a|b"},
            id="declared by both",
        ),
        pytest.param({"C->A.enabled": "true", **ENDING}, id="a loop that both flows end"),
        pytest.param(
            {"C->A.enabled": "true", **ENDING, "topics": "a", "replication.aggregate.topics": "a"},
            id="a loop of one topic that both flows end",
        ),
    ],
)
def test_identity_flows_without_a_shared_topic_are_accepted(settings: dict[str, Raw]) -> None:
    identity = {**THREE_CLUSTERS, "replication.policy.class": IDENTITY, **settings}

    assert len(parse_settings(identity).flows) == 2


def test_secrets_are_masked() -> None:
    jaas = "x.PlainLoginModule required username=u password=hunter2;"
    config = parse_settings(
        {
            **ONE_FLOW,
            "A.sasl.jaas.config": jaas,
            "B.ssl.key.password": "hunter2",
            "A.security.protocol": "SASL_SSL",
            "A.sasl.mechanism": "PLAIN",
        }
    )

    assert "hunter2" not in repr(config)
    assert MASK in repr(config)
    assert Diagnostics().display("A.ssl.key.password", "hunter2") == MASK
    assert config.flows[0].source.admin["sasl.jaas.config"] == jaas
    assert pickle.loads(pickle.dumps(config)) == config  # noqa: S301  # our own bytes


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        pytest.param(
            "replication.factor",
            "hunter2",
            f"{MASK} is invalid; write a whole number, for example 2",
            id="number",
        ),
        pytest.param(
            "topics", "a,hunter2(", f"{MASK} is invalid; write names or regexes", id="pattern"
        ),
        pytest.param(
            "replication.policy.separator",
            "hunter:2",
            f"{MASK} is not allowed in a topic name; use A-Z a-z 0-9 . _ -",
            id="separator",
        ),
        pytest.param(
            "state.dir",
            "hunter2",
            f"{MASK} is relative; write an absolute path or a URI such as s3a://bucket/folder",
            id="state.dir",
        ),
    ],
)
def test_a_problem_masks_a_value_that_came_from_a_reference(
    key: str, value: str, problem: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        parse("f", {**ONE_FLOW, key: value}, default_state_dir="/s", hidden={key})

    assert caught.value.problems == (f"{key}: {problem}",)


def test_every_loop_is_reported() -> None:
    settings = {
        **THREE_CLUSTERS,
        "replication.policy.class": IDENTITY,
        **dict.fromkeys((f"{flow}.enabled" for flow in ("C->A", "A->B", "B->A")), "true"),
    }

    loops = [problem for problem in problems_of(settings) if "replication loop" in problem]

    assert [problem.partition(" would")[0] for problem in loops] == [
        "B->A.topics: replication loop: A -> B -> A",
        "C->A.topics: replication loop: A -> C -> A",
    ]


def test_remote_topics_are_not_deleted_under_identity_naming() -> None:
    settings = {"replication.deletions.enabled": "true", "replication.policy.class": IDENTITY}

    assert problems_of({**ONE_FLOW, **settings}) == [
        (
            "replication.deletions.enabled: is not possible under IdentityReplicationPolicy, where "
            "a remote topic cannot be told from the target's own topics; write false"
        )
    ]


def test_flows_without_a_separator_that_form_a_loop_are_rejected() -> None:
    both = {**TWO_CLUSTERS, "enabled": "true", "replication.policy.separator": ""}

    (problem,) = problems_of(both)
    assert problem == (
        "B->A.replication.policy.separator: replication loop: A -> B -> A would copy topics "
        "without end, because an empty separator hides where they come from; write a separator, "
        "or name the topics"
    )
    assert len(parse_settings({**both, "topics": "orders, payments"}).flows) == 2
