"""The whole configuration: what it means, whose value wins, and every problem at once."""

import pickle
from collections.abc import Callable, Mapping

import pytest

from replication.config.clients.secrets import MASK
from replication.config.parse import parse
from replication.config.tree import (
    ClusterConfig,
    FlowConfig,
    GroupsConfig,
    HeartbeatsConfig,
    MirrorConfig,
    OffsetSyncsConfig,
    TopicConfigsConfig,
)
from replication.config.values import Diagnostics, Raw
from replication.errors import ConfigError
from replication.mm2.policy import IdentityPolicy, PrefixPolicy
from replication.model import Flow

IDENTITY = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
TWO: Mapping[str, Raw] = {
    "clusters": "A,B",
    "A.bootstrap.servers": "a:1",
    "B.bootstrap.servers": "b:1",
}
ONE_FLOW = {**TWO, "A->B.enabled": "true"}
THREE = {**TWO, "clusters": "A, B, C", "C.bootstrap.servers": "c:1", "A->C.enabled": "true"}


def parsed(settings: Mapping[str, Raw]) -> MirrorConfig:
    return parse("c.yaml", settings, default_state_dir="/state")


def flow(**written: Raw) -> FlowConfig:
    return parsed({**ONE_FLOW, **written}).flows[0]


def problems(settings: Mapping[str, Raw], lines: Mapping[str, int] | None = None) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        parse("c.yaml", settings, default_state_dir="/state", lines=lines)
    return list(caught.value.problems)


def heartbeats(flow: str, alias: str, servers: str) -> HeartbeatsConfig:
    """The default heartbeats of a pair."""
    return HeartbeatsConfig(
        flow=Flow(*flow.split("->")),
        alias=alias,
        topic="heartbeats",
        interval_seconds=1,
        replication_factor=3,
        producer={"bootstrap.servers": servers},
        admin={"bootstrap.servers": servers},
    )


def test_the_defaults_are_mirror_maker_s() -> None:
    assert parsed(ONE_FLOW) == MirrorConfig(
        file="c.yaml",
        clusters=("A", "B"),
        state_dir="file:///state",
        flows=(
            FlowConfig(
                flow=Flow("A", "B"),
                topics=(".*",),
                topics_exclude=(r"mm2.*\.internal", r".*\.replica", "__.*"),
                heartbeats_replication_enabled=True,
                policy=PrefixPolicy(),
                replication_factor=2,
                refresh_topics_enabled=True,
                refresh_topics_interval_seconds=600,
                mode="auto",
                realtime_batch_seconds=60,
                batch_max_records=1_000_000,
                record_timestamps="preserve",
                auto_offset_reset="earliest",
                topic_configs=TopicConfigsConfig(
                    exclude=(
                        r"follower\.replication\.throttled\.replicas",
                        r"leader\.replication\.throttled\.replicas",
                        r"message\.timestamp\.difference\.max\.ms",
                        r"log\.message\.timestamp\.before\.max\.ms",
                        r"log\.message\.timestamp\.after\.max\.ms",
                        r"message\.timestamp\.type",
                        r"unclean\.leader\.election\.enable",
                        r"min\.insync\.replicas",
                    ),
                    defaults_from="target",
                ),
                offset_syncs=OffsetSyncsConfig(
                    enabled=True, location="source", replication_factor=3, lag_max=100
                ),
                groups=GroupsConfig(
                    groups=(".*",),
                    groups_exclude=("console-consumer-.*", "connect-.*", "__.*"),
                    refresh_enabled=True,
                    refresh_interval_seconds=600,
                    checkpoints_enabled=True,
                    checkpoints_interval_seconds=60,
                    replication_factor=3,
                    sync_enabled=False,
                    sync_interval_seconds=60,
                    sync_on_rewind="keep",
                ),
                source=ClusterConfig(
                    alias="A",
                    consumer={"bootstrap.servers": "a:1"},
                    producer={"bootstrap.servers": "a:1"},
                    admin={"bootstrap.servers": "a:1"},
                ),
                target=ClusterConfig(
                    alias="B",
                    consumer={"bootstrap.servers": "b:1"},
                    producer={"bootstrap.servers": "b:1"},
                    admin={"bootstrap.servers": "b:1"},
                ),
            ),
        ),
        heartbeats=(
            heartbeats("A->B", "B", "b:1"),
            heartbeats("B->A", "A", "a:1"),
        ),
        notes=(),
    )


@pytest.mark.parametrize("at", ["", "A->B."])
def test_every_value_at_top_level_or_of_the_flow(at: str) -> None:
    config = parsed(
        {
            **ONE_FLOW,
            f"{at}topics": "a, b,,a",
            f"{at}topics.exclude": "",
            f"{at}heartbeats.replication.enabled": "FALSE",
            f"{at}replication.policy.class": IDENTITY,
            f"{at}replication.policy.separator": "_",
            f"{at}replication.policy.internal.topic.separator.enabled": "false",
            f"{at}replication.factor": "-1",
            f"{at}refresh.topics.enabled": "false",
            f"{at}refresh.topics.interval.seconds": "5",
            f"{at}replication.mode": "drain",
            f"{at}replication.realtime.batch.seconds": "5",
            f"{at}replication.batch.max.records": "1",
            f"{at}record.timestamps": "broker",
            f"{at}auto.offset.reset": "latest",
            f"{at}config.properties.exclude": "retention.*",
            f"{at}use.defaults.from": "source",
            f"{at}emit.offset-syncs.enabled": "false",
            f"{at}offset-syncs.topic.location": "target",
            f"{at}offset-syncs.topic.replication.factor": "1",
            f"{at}offset.lag.max": "0",
            f"{at}groups": "g",
            f"{at}groups.exclude": "",
            f"{at}refresh.groups.enabled": "false",
            f"{at}refresh.groups.interval.seconds": "2",
            f"{at}emit.checkpoints.enabled": "false",
            f"{at}emit.checkpoints.interval.seconds": "3",
            f"{at}checkpoints.topic.replication.factor": "4",
            f"{at}sync.group.offsets.enabled": "true",
            f"{at}sync.group.offsets.interval.seconds": "5",
            f"{at}sync.group.offsets.on.rewind": "follow",
            "state.dir": "s3a://bucket/state",
        }
    )

    assert config.state_dir == "s3a://bucket/state"
    (one,) = config.flows
    assert one == FlowConfig(
        flow=Flow("A", "B"),
        topics=("a", "b"),
        topics_exclude=(),
        heartbeats_replication_enabled=False,
        policy=IdentityPolicy("_", ".", source="A"),
        replication_factor=-1,
        refresh_topics_enabled=False,
        refresh_topics_interval_seconds=5,
        mode="drain",
        realtime_batch_seconds=5,
        batch_max_records=1,
        record_timestamps="broker",
        auto_offset_reset="latest",
        topic_configs=TopicConfigsConfig(exclude=("retention.*",), defaults_from="source"),
        offset_syncs=OffsetSyncsConfig(
            enabled=False, location="target", replication_factor=1, lag_max=0
        ),
        groups=GroupsConfig(
            groups=("g",),
            groups_exclude=(),
            refresh_enabled=False,
            refresh_interval_seconds=2,
            checkpoints_enabled=False,
            checkpoints_interval_seconds=3,
            replication_factor=4,
            sync_enabled=True,
            sync_interval_seconds=5,
            sync_on_rewind="follow",
        ),
        source=one.source,
        target=one.target,
    )


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        pytest.param({}, ["A->B at B", "B->A at A"], id="of disabled flows too"),
        pytest.param({"emit.heartbeats.enabled": "false"}, [], id="none"),
        pytest.param({"B->A.emit.heartbeats.enabled": "false"}, ["A->B at B"], id="all but one"),
        pytest.param(
            {
                "emit.heartbeats.enabled": "false",
                "A->B.emit.heartbeats.enabled": "true",
                "A->B.heartbeats.topic.location": "source",
            },
            ["A->B at A"],
            id="on the source",
        ),
    ],
)
def test_whose_heartbeats_are_emitted_where(settings: dict[str, Raw], expected: list[str]) -> None:
    found = parsed({**ONE_FLOW, **settings}).heartbeats

    assert [f"{it.flow} at {it.alias}" for it in found] == expected
    servers = {"A": "a:1", "B": "b:1"}
    assert [it.producer["bootstrap.servers"] for it in found] == [servers[it.alias] for it in found]


def test_an_offset_syncs_topic_that_is_never_written_is_noted() -> None:
    settings = {"emit.offset-syncs.enabled": "false", "A->B.offset-syncs.topic.location": "target"}

    assert parsed({**ONE_FLOW, **settings}).notes == (
        "A->B.offset-syncs.topic.location: has no effect: emit.offset-syncs.enabled is false",
    )


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        pytest.param({"A->B.enabled": "true"}, ["A->B"], id="one"),
        pytest.param({"enabled": "true"}, ["A->B", "B->A"], id="every pair"),
        pytest.param({"enabled": "true", "A->B.enabled": "false"}, ["B->A"], id="all but one"),
        pytest.param({"A -> B.enabled": "True"}, ["A->B"], id="blanks around the arrow"),
    ],
)
def test_which_flows_run(settings: dict[str, Raw], expected: list[str]) -> None:
    assert [str(config.flow) for config in parsed({**TWO, **settings}).flows] == expected


def test_an_alias_may_hold_dots_and_be_the_beginning_of_another() -> None:
    config = parsed(
        {
            "clusters": "eu,eu.west,source",
            "eu.bootstrap.servers": "a:1",
            "eu.west.bootstrap.servers": "b:1",
            "source.bootstrap.servers": "c:1",
            "source.consumer.fetch.min.bytes": "2",
            "eu->eu.west.enabled": "true",
            "source->eu.enabled": "true",
        }
    )

    assert [(str(one.flow), one.source.consumer, one.target.admin) for one in config.flows] == [
        ("eu->eu.west", {"bootstrap.servers": "a:1"}, {"bootstrap.servers": "b:1"}),
        (
            "source->eu",
            {"bootstrap.servers": "c:1", "fetch.min.bytes": "2"},
            {"bootstrap.servers": "a:1"},
        ),
    ]


WEAKEST_FIRST = {
    "consumer": (
        "consumer.client.id",
        "source.consumer.client.id",
        "A.client.id",
        "A->B.source.cluster.client.id",
        "A->B.consumer.client.id",
        "A.consumer.client.id",
        "A->B.source.consumer.client.id",
    ),
    "producer": (
        "producer.client.id",
        "producer.override.client.id",
        "target.producer.client.id",
        "B.client.id",
        "A->B.target.cluster.client.id",
        "A->B.producer.client.id",
        "B.producer.client.id",
        "A->B.target.producer.client.id",
        "A->B.producer.override.client.id",
    ),
}


@pytest.mark.parametrize(
    ("keys", "properties"),
    [
        pytest.param(WEAKEST_FIRST["consumer"], lambda f: f.source.consumer, id="consumer"),
        pytest.param(WEAKEST_FIRST["producer"], lambda f: f.target.producer, id="producer"),
    ],
)
def test_a_client_property_s_precedence(
    keys: tuple[str, ...], properties: Callable[[FlowConfig], Mapping[str, str]]
) -> None:
    found = [
        properties(flow(**{key: key for key in keys[: count + 1]}))["client.id"]
        for count in range(len(keys))
    ]

    assert found == list(keys)


def test_client_properties_reach_the_clients_they_are_for() -> None:
    config = flow(
        **{
            "ssl.protocol": "TLSv1.3",
            "B.request.timeout.ms": "7",
            "B.linger.ms": "1",
            "B.max.poll.records": "2",
            "B.own.property": "x",
            "A->B.producer.override.acks": "all",
            "A.consumer.group.id": "g",
        }
    )

    shared = {
        "ssl.protocol": "TLSv1.3",
        "bootstrap.servers": "b:1",
        "request.timeout.ms": "7",
        "own.property": "x",
    }
    source = {"ssl.protocol": "TLSv1.3", "bootstrap.servers": "a:1"}
    assert [
        config.source.consumer,
        config.source.producer,
        config.source.admin,
        config.target.consumer,
        config.target.producer,
        config.target.admin,
    ] == [
        source,
        source,
        source,
        {**shared, "max.poll.records": "2"},
        {**shared, "linger.ms": "1", "acks": "all"},
        shared,
    ]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        pytest.param({}, "earliest", id="default"),
        pytest.param({"auto.offset.reset": "latest"}, "latest", id="top level"),
        pytest.param(
            {"A.consumer.auto.offset.reset": "latest"}, "latest", id="MirrorMaker's place"
        ),
        pytest.param({"A.auto.offset.reset": "latest"}, "latest", id="cluster"),
        pytest.param({"B.consumer.auto.offset.reset": "latest"}, "earliest", id="other cluster"),
        pytest.param(
            {"A.consumer.auto.offset.reset": "latest", "auto.offset.reset": "earliest"},
            "latest",
            id="cluster over top level",
        ),
        pytest.param(
            {"A.consumer.auto.offset.reset": "latest", "A->B.auto.offset.reset": "earliest"},
            "earliest",
            id="flow over cluster",
        ),
    ],
)
def test_auto_offset_reset(settings: dict[str, Raw], expected: str) -> None:
    assert flow(**settings).auto_offset_reset == expected


def test_keys_without_effect_are_noted() -> None:
    config = parsed(
        {
            **ONE_FLOW,
            "tasks.max": "10",
            "offset.storage.replication.factor": "1",
            "B.exactly.once.source.support": "enabled",
            "A->B.key.converter": "x",
            "A->B.sync.topic.acls.enabled": "true",
            "B.producer.acks": "1",
            "A.consumer.group.id": "g",
            "A.zork": "1",
            "B.security.protocol": "SASL_PLAINTEXT",
            "topic.filter.class": "org.apache.kafka.connect.mirror.DefaultTopicFilter",
            "config.providers": "file",
            "config.providers.file.class": "x.FileConfigProvider",
            "transforms": "",
        }
    )

    assert config.notes == (
        (
            "tasks.max: has no effect: Kafka Connect's own; there are no workers and no connectors "
            "here"
        ),
        (
            "offset.storage.replication.factor: has no effect: Kafka Connect's own topics; "
            "positions are in the Delta tables here"
        ),
        (
            "B.exactly.once.source.support: has no effect: a flow writes each record once without "
            "transactions; see the guarantees"
        ),
        "A->B.key.converter: has no effect: records always cross as bytes, unchanged",
        "A->B.sync.topic.acls.enabled: is understood, but this version does not act on it yet",
        "B.producer.acks: with fewer acknowledgements a broker's crash can lose records",
        "A.consumer.group.id: has no effect: the mirror reads without a consumer group",
        "A.zork: not a property this program knows; passed to the client as it is",
        "B.sasl.mechanism: GSSAPI needs a confluent-kafka built with it; PyPI's wheel has none",
    )


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        pytest.param({"topcis": "a"}, "topcis: unknown key; did you mean topics?", id="typo"),
        pytest.param(
            {"A->B.topcis": "a"},
            "A->B.topcis: unknown key; did you mean A->B.topics?",
            id="typo in a flow",
        ),
        pytest.param({"zork": "a"}, "zork: unknown key; remove it", id="like nothing"),
        pytest.param(
            {"topics.blacklist": "a"},
            "topics.blacklist: removed in Kafka 4.0; write topics.exclude",
            id="removed in 4.0",
        ),
        pytest.param(
            {"A.topics": "a"},
            "A.topics: belongs to a flow; write B->A.topics or topics",
            id="flow's key at a cluster",
        ),
        pytest.param(
            {"isolation.level": "read_committed"},
            "isolation.level: belongs to a cluster; write A.isolation.level",
            id="client's key at top level",
        ),
        pytest.param(
            {"A->B.isolation.level": "read_committed"},
            "A->B.isolation.level: belongs to a client; write "
            "A->B.source.consumer.isolation.level or the like",
            id="client's key at a flow",
        ),
        pytest.param(
            {"A->B.state.dir": "/x"},
            "A->B.state.dir: is for the whole file; write state.dir",
            id="file's key at a flow",
        ),
        pytest.param(
            {"X.bootstrap.servers": "a:1"},
            "X.bootstrap.servers: 'X' is no cluster, clusters lists A, B",
            id="unknown cluster",
        ),
        pytest.param(
            {"A->X.topics": "a"},
            "A->X.topics: 'X' is no cluster, clusters lists A, B",
            id="unknown target",
        ),
        pytest.param(
            {"A->A.enabled": "true"},
            "A->A.enabled: source and target are both 'A'; name two clusters",
            id="source is target",
        ),
        pytest.param(
            {"A->B.source.cluster.alias": "C"},
            "A->B.source.cluster.alias: 'C' is not 'A'; remove the key",
            id="another alias",
        ),
        pytest.param(
            {"A->B.transforms": "route"},
            "A->B.transforms: transforms cannot run here, and without them other records would be "
            "written; remove it",
            id="transforms",
        ),
        pytest.param(
            {"replication.policy.class": "com.acme.Own"},
            "replication.policy.class: 'com.acme.Own' does not fit; write "
            f"org.apache.kafka.connect.mirror.DefaultReplicationPolicy or {IDENTITY} or "
            "DefaultReplicationPolicy or IdentityReplicationPolicy",
            id="own policy",
        ),
        pytest.param(
            {"replication.policy.separator": ""},
            "replication.policy.separator: '' cannot stand in a topic name; write characters of "
            "A-Z a-z 0-9 . _ -",
            id="no separator",
        ),
        pytest.param(
            {"topics": ""},
            "topics: is empty; give at least one name or regex, '.*' takes every topic",
            id="no topics",
        ),
        pytest.param(
            {"A->B.enabled": "yes"},
            "A->B.enabled: 'yes' does not fit; write true or false",
            id="flag",
        ),
        pytest.param(
            {"replication.factor": "0"},
            "replication.factor: '0' does not fit; write 1 "
            "or more, or -1 for the cluster's default",
            id="factor",
        ),
        pytest.param(
            {"refresh.topics.interval.seconds": "1m"},
            "refresh.topics.interval.seconds: '1m' does not fit; write a whole number, such as 600",
            id="number",
        ),
        pytest.param(
            {"replication.realtime.batch.seconds": "4"},
            "replication.realtime.batch.seconds: '4' does not fit; write 5 or more",
            id="too small",
        ),
        pytest.param(
            {"replication.mode": "fast"},
            "replication.mode: 'fast' does not fit; write auto or realtime or microbatch or drain",
            id="mode",
        ),
        pytest.param(
            {"record.timestamps": "x"},
            "record.timestamps: 'x' does not fit; write preserve or broker",
            id="timestamps",
        ),
        pytest.param(
            {"metric.names.formats": "new,x"},
            "metric.names.formats: 'new,x' does not fit; write items of legacy, new",
            id="item",
        ),
        pytest.param(
            {"offset-syncs.topic.location": "both"},
            "offset-syncs.topic.location: 'both' does not fit; write source or target",
            id="location",
        ),
        pytest.param(
            {"state.dir": "state"},
            "state.dir: 'state' is relative; write an absolute path or a URI such as s3a://..",
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
            "A.isolation.level: 'x' is not possible; write read_uncommitted or read_committed",
            id="isolation",
        ),
        pytest.param(
            {"A.consumer.auto.offset.reset": "none"},
            "A.consumer.auto.offset.reset: 'none' is not possible; write earliest or latest",
            id="reset",
        ),
        pytest.param(
            {"A.consumer.enable.auto.commit": "true"},
            "A.consumer.enable.auto.commit: 'true' is not possible; write false",
            id="auto commit",
        ),
        pytest.param(
            {"B.producer.key.serializer": "x"},
            "B.producer.key.serializer: cannot be set: records cross as bytes; remove it",
            id="serializer",
        ),
        pytest.param(
            {"B.producer.transactional.id": "x"},
            "B.producer.transactional.id: cannot "
            "be set: Spark writes without transactions; remove it",
            id="transactions",
        ),
        pytest.param(
            {"B.producer.linger.ms": "5s"},
            "B.producer.linger.ms: '5s' is not a whole number",
            id="client's number",
        ),
        pytest.param(
            {"A.consumer.max.poll.record": "5"},
            "A.consumer.max.poll.record: no property "
            "of this client; did you mean 'max.poll.records'?",
            id="client's typo",
        ),
        pytest.param(
            {"A.consumer.linger.ms": "5"},
            "A.consumer.linger.ms: a property of another kind of client; remove it here",
            id="another client's",
        ),
        pytest.param(
            {
                "A.sasl.jaas.config": "hunter2",
                "A.security.protocol": "SASL_SSL",
                "A.sasl.mechanism": "PLAIN",
            },
            "A.sasl.jaas.config: not readable, after a class name write 'required' (value not "
            "shown)",
            id="JAAS",
        ),
        pytest.param(
            {"A.ssl.key.passwort": "x"},
            "A.ssl.key.passwort: no property of this client; did you mean 'ssl.key.password'?",
            id="typo in a security key",
        ),
    ],
)
def test_each_problem_alone(settings: dict[str, Raw], expected: str) -> None:
    assert [text for text in problems({**ONE_FLOW, **settings}) if "no flow" not in text] == [
        expected
    ]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        pytest.param(
            {}, ["clusters: missing; list the aliases, such as clusters: [east, west]"], id="none"
        ),
        pytest.param(
            TWO, ["A->B.enabled: no flow is enabled; write true for one at least"], id="no flow"
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
            ["clusters: 'a/b' is no alias; it becomes part of topic names: A-Z a-z 0-9 . _ -"],
            id="alias",
        ),
    ],
)
def test_problems_of_clusters(settings: Mapping[str, Raw], expected: list[str]) -> None:
    assert problems(settings) == expected


def test_all_problems_come_at_once_in_the_order_of_the_file() -> None:
    settings = {**ONE_FLOW, "replication.mode": "x", "topcis": "a", "A->B.replication.factor": "z"}
    lines = {"replication.mode": 9, "topcis": 3, "A->B.replication.factor": 5}

    assert problems(settings, lines) == [
        "topcis: unknown key; did you mean topics? (line 3)",
        "A->B.replication.factor: 'z' does not fit; write a whole number, such as 2 (line 5)",
        (
            "replication.mode: 'x' does not fit; write auto or realtime or microbatch or drain "
            "(line 9)"
        ),
    ]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        pytest.param(
            {"B->C.enabled": "true", "topics": "orders"},
            "B->C.topics: orders would be written by A->C too, and a topic has one writer; put it "
            "into B->C.topics.exclude",
            id="same name",
        ),
        pytest.param(
            {"B->C.enabled": "true", "A->C.topics": "orders", "B->C.topics": "ord.*"},
            "B->C.topics: orders would be written by A->C too, and a topic has one writer; put it "
            "into B->C.topics.exclude",
            id="a name that the other's regex takes",
        ),
        pytest.param(
            {"C->A.enabled": "true"},
            "C->A.topics: .* would go from A->C back to A and round for ever under "
            "IdentityReplicationPolicy; put it into C->A.topics.exclude",
            id="there and back",
        ),
    ],
)
def test_identity_flows_that_meet(settings: dict[str, Raw], expected: str) -> None:
    identity = {**THREE, "replication.policy.class": IDENTITY, **settings}

    assert problems(identity) == [expected]


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
        pytest.param({"B->C.enabled": "true"}, id="regexes alone do not say"),
        pytest.param({"A->B.enabled": "true", "topics": "a"}, id="one source, two targets"),
    ],
)
def test_identity_flows_that_do_not_meet(settings: dict[str, Raw]) -> None:
    identity = {**THREE, "replication.policy.class": IDENTITY, **settings}

    assert len(parsed(identity).flows) == 2


def test_no_secret_is_shown() -> None:
    jaas = "x.PlainLoginModule required username=u password=hunter2;"
    config = parsed(
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
    assert Diagnostics().shown("A.ssl.key.password", "hunter2") == MASK
    assert config.flows[0].source.admin["sasl.jaas.config"] == jaas
    assert pickle.loads(pickle.dumps(config)) == config  # noqa: S301  # our own bytes


def test_a_hidden_value_is_not_shown_in_a_problem() -> None:
    settings = {**ONE_FLOW, "replication.factor": "hunter2"}

    with pytest.raises(ConfigError) as caught:
        parse("f", settings, default_state_dir="/s", hidden={"replication.factor"})

    assert caught.value.problems == (
        f"replication.factor: {MASK} does not fit; write a whole number, such as 2",
    )
