"""Each wrong key or value is reported with what to write instead, word for word."""

import pytest

from replication.config.values import Raw
from tests.support.settings import ONE_FLOW, problems_of


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
            "A->B.transforms.route.type: is missing or empty; write the class of the transform",
            id="transforms",
        ),
        pytest.param(
            {"replication.policy.class": "IdentityReplicationPolcy"},
            "replication.policy.class: 'IdentityReplicationPolcy' is invalid; write "
            "DefaultReplicationPolicy or IdentityReplicationPolicy, or the full name of a Java "
            "class of your own",
            id="misspelt policy",
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
            {"replication.realtime.batch.seconds": "0"},
            "replication.realtime.batch.seconds: '0' is invalid; write 1 or more",
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
