"""What MirrorMaker 2 and SRM take is taken: silently, with a warning, or refused with a reason."""

import pytest

from replication.config.parse import parse
from replication.config.values import Raw
from replication.errors import ConfigError
from replication.mm2.policy import IdentityPolicy, PrefixPolicy
from tests.support.settings import ONE_FLOW, TWO_CLUSTERS, parse_settings, problems_of


def warnings_of(settings: dict[str, Raw]) -> tuple[str, ...]:
    return parse_settings({**ONE_FLOW, **settings}).warnings


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        pytest.param("zork", "zork: unknown key, without effect", id="similar to no key"),
        pytest.param(
            "A->B.team.owner", "A->B.team.owner: unknown key, without effect", id="of a flow"
        ),
        pytest.param(
            "offset.syncs.max",
            "offset.syncs.max: unknown key, without effect; the most similar key is offset.lag.max",
            id="similar to a key",
        ),
        pytest.param(
            "A.team.owner",
            "A.team.owner: unknown key, without effect, as in MirrorMaker 2",
            id="of a cluster",
        ),
        pytest.param(
            "A.consumer.own.login",
            "A.consumer.own.login: unknown property; passed to Java's client unchanged",
            id="of a client",
        ),
        pytest.param(
            "A.offset-syncs.topic.replication.factor",
            "A.offset-syncs.topic.replication.factor: has no effect, as in MirrorMaker 2: it is a "
            "flow key; write B->A.offset-syncs.topic.replication.factor or "
            "offset-syncs.topic.replication.factor",
            id="a flow's key at a cluster",
        ),
    ],
)
def test_a_key_that_mirrormaker_2_drops_is_a_warning(key: str, expected: str) -> None:
    assert warnings_of({key: "1"}) == (expected,)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        pytest.param(
            {"topics.blacklist": "a", "A->B.groups.blacklist": "g"},
            (("a",), ("g",)),
            id="keys of 3.9",
        ),
        pytest.param(
            {"connectors.topics.exclude": "a", "A->B.connectors.groups.exclude": "g"},
            (("a",), ("g",)),
            id="keys of SRM",
        ),
        pytest.param(
            {"connectors.topics.blacklist": "a", "groups.exclude": "g"}, (("a",), ("g",)), id="both"
        ),
    ],
)
def test_older_keys_and_those_of_srm_are_translated(
    settings: dict[str, Raw], expected: tuple[tuple[str, ...], tuple[str, ...]]
) -> None:
    config = parse_settings({**ONE_FLOW, **settings})

    (flow,) = config.flows
    assert (flow.topics_exclude, flow.groups.groups_exclude) == expected
    translated = [key for key in settings if "blacklist" in key or "connectors" in key]
    assert [note.partition(":")[0] for note in config.notes] == translated


def test_a_translated_key_loses_to_the_one_that_replaced_it() -> None:
    config = parse_settings({**ONE_FLOW, "topics.blacklist": "old", "topics.exclude": "new"})

    assert config.flows[0].topics_exclude == ("new",)
    assert config.warnings == (
        "topics.blacklist: has no effect: topics.exclude is given, too, and wins",
    )


def test_a_problem_of_a_translated_key_names_the_key_of_the_file() -> None:
    settings = {**ONE_FLOW, "topics.blacklist": "a("}

    (problem,) = problems_of(settings, {"topics.blacklist": 7})

    assert problem.startswith("topics.blacklist: 'a(' is invalid")
    assert problem.endswith("(line 7)")


def test_the_worker_prefix_of_srm_reaches_the_producer_of_the_data() -> None:
    config = parse_settings(
        {
            **ONE_FLOW,
            "workers.producer.linger.ms": "7",
            "workers.offset.flush.timeout.ms": "1",
            "metrics.period": "30",
            "streams.replication.manager.service.target.cluster": "B",
        }
    )

    assert config.flows[0].target.producer["linger.ms"] == "7"
    assert config.warnings == ()
    assert [note for note in config.notes if "has no effect" not in note] == [
        "workers.producer.linger.ms: is read as producer.linger.ms"
    ]


@pytest.mark.parametrize(
    "key", ["replication.target.clusters", "streams.replication.manager.driver.target.cluster"]
)
def test_a_driver_with_targets_writes_to_no_other_cluster(key: str) -> None:
    config = parse_settings({**TWO_CLUSTERS, "enabled": "true", key: "B"})

    assert [str(flow.flow) for flow in config.flows] == ["A->B"]
    assert [str(pair.flow) for pair in config.heartbeats] == ["A->B"]


def test_the_option_of_a_process_takes_the_place_of_the_key() -> None:
    settings = {**TWO_CLUSTERS, "enabled": "true", "replication.target.clusters": "A"}

    config = parse("c.yaml", settings, default_state_dir="/state", targets="B")

    assert [str(flow.flow) for flow in config.flows] == ["A->B"]
    assert [str(flow.flow) for flow in config.other_flows] == ["B->A"]
    assert [str(pair.flow) for pair in config.heartbeats] == ["A->B"]


def test_an_unknown_target_of_the_option_is_a_problem_of_the_option() -> None:
    with pytest.raises(ConfigError) as caught:
        parse("c.yaml", ONE_FLOW, default_state_dir="/state", targets="B, C")

    assert caught.value.problems == ("--clusters: unknown cluster 'C'; clusters: A, B",)


def test_flows_of_other_processes_are_checked_for_loops() -> None:
    identity = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
    settings = {**TWO_CLUSTERS, "enabled": "true", "replication.policy.class": identity}

    with pytest.raises(ConfigError, match="replication loop: A -> B -> A"):
        parse("c.yaml", settings, default_state_dir="/state", targets="B")


@pytest.mark.parametrize(
    ("targets", "expected"),
    [
        pytest.param(
            "C",
            ["replication.target.clusters: unknown cluster 'C'; clusters: A, B"],
            id="unknown",
        ),
        pytest.param(
            "A",
            [
                (
                    "replication.target.clusters: no enabled flow has one of these targets, and "
                    "no heartbeats; add one"
                )
            ],
            id="target of no flow",
        ),
    ],
)
def test_targets_that_select_nothing_are_a_problem(targets: str, expected: list[str]) -> None:
    settings = {"replication.target.clusters": targets, "emit.heartbeats.enabled": "false"}

    assert problems_of({**ONE_FLOW, **settings}) == expected


@pytest.mark.parametrize(
    ("settings", "names", "warning"),
    [
        pytest.param(
            TWO_CLUSTERS,
            ["A->B", "B->A"],
            "A->B.enabled: no flow is enabled: only heartbeats are emitted",
            id="no flow",
        ),
        pytest.param(
            {**ONE_FLOW, "replication.target.clusters": "A"},
            ["B->A"],
            "replication.target.clusters: no enabled flow has one of these targets: only "
            "heartbeats are emitted",
            id="a target of no flow",
        ),
    ],
)
def test_without_a_flow_heartbeats_run_as_in_mirror_maker(
    settings: dict[str, Raw], names: list[str], warning: str
) -> None:
    config = parse_settings({**settings, "replication.mode": "drain"})

    assert config.flows == ()
    assert [str(pair.flow) for pair in config.heartbeats] == names
    assert list(map(str, config.names)) == names
    assert config.mode == "drain"
    assert config.warnings == (warning,)


def test_an_empty_list_of_topics_selects_none() -> None:
    config = parse_settings({**ONE_FLOW, "topics": ""})

    assert config.flows[0].topics == ()
    assert config.warnings == (
        "topics: is empty: A->B replicates heartbeats only ('.*' matches every topic)",
    )


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        pytest.param({}, PrefixPolicy("", ""), id="alias without a separator"),
        pytest.param(
            {"source.cluster.alias": "", "target.cluster.alias": ""},
            IdentityPolicy("", "", source="A"),
            id="neither alias nor separator",
        ),
        pytest.param(
            {
                "replication.policy.class": (
                    "io.strimzi.kafka.connect.mirror.IdentityReplicationPolicy"
                )
            },
            IdentityPolicy("", "", source="A"),
            id="Strimzi's policy",
        ),
    ],
)
def test_an_empty_separator_names_topics_as_in_mirrormaker_2(
    settings: dict[str, Raw], expected: PrefixPolicy
) -> None:
    config = parse_settings({**ONE_FLOW, "replication.policy.separator": "", **settings})

    assert config.flows[0].policy == expected
    # Java splits an empty separator into letters, so that the first one reads as the source.
    assert PrefixPolicy("", "").topic_source("orders") == "o"
    assert PrefixPolicy("", "").upstream_topic("orders") == "rders"
    assert PrefixPolicy("", "").topic_source("o") is None


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("B.producer.acks", "1", "the mirror always writes with acks=all"),
        ("B.acks", "0", "the mirror always writes with acks=all"),
        ("B.producer.enable.idempotence", "false", "the mirror always writes idempotently"),
        ("A->B.producer.override.retries", "0", "the mirror retries without limit"),
        ("producer.delivery.timeout.ms", "1000", "the mirror never gives a record up"),
        (
            "B.producer.max.in.flight.requests.per.connection",
            "6",
            "the mirror has at most 5 requests in flight",
        ),
    ],
)
def test_a_value_that_would_weaken_the_guarantees_is_replaced(
    key: str, value: str, reason: str
) -> None:
    config = parse_settings({**ONE_FLOW, key: value})

    assert config.flows[0].target.producer == {"bootstrap.servers": "b:1"}
    assert config.warnings == (
        f"{key}: has no effect: {reason}, so that no record is lost, repeated or reordered",
    )


def test_values_that_keep_the_guarantees_are_used() -> None:
    values = {
        "acks": "-1",
        "enable.idempotence": "true",
        "retries": "2147483647",
        "max.in.flight.requests.per.connection": "1",
    }
    config = parse_settings({**ONE_FLOW, **{f"B.producer.{k}": v for k, v in values.items()}})

    assert config.flows[0].target.producer == {"bootstrap.servers": "b:1", **values}
    assert config.warnings == ()


@pytest.mark.parametrize(
    "key",
    [
        "B.producer.key.serializer",
        "A.consumer.value.deserializer",
        "A.consumer.interceptor.classes",
        "B.producer.transactional.id",
        "A.consumer.group.id",
        "A.consumer.group.protocol",
        "B.producer.partitioner.class",
    ],
)
def test_what_the_mirror_sets_itself_has_no_effect_and_reaches_no_client(key: str) -> None:
    config = parse_settings({**ONE_FLOW, key: "x"})

    (flow,) = config.flows
    assert flow.source.consumer == {"bootstrap.servers": "a:1"}
    assert flow.target.producer == {"bootstrap.servers": "b:1"}
    (text,) = (*config.notes, *config.warnings)
    assert text.startswith(f"{key}: has no effect: ")


@pytest.mark.parametrize(
    ("key", "right"),
    [
        ("A.source.consumer.isolation.level", "A.consumer.isolation.level"),
        ("A.source.cluster.client.id", "A.client.id"),
        ("B.producer.override.acks", "B.producer.acks"),
        ("B.target.producer.acks", "B.producer.acks"),
        ("A->B.source.producer.override.acks", "A->B.producer.override.acks"),
    ],
)
def test_a_client_property_in_a_place_that_nobody_reads_is_a_problem(key: str, right: str) -> None:
    assert problems_of({**ONE_FLOW, key: "read_committed"}) == [
        f"{key}: would have no effect, as in MirrorMaker 2; write {right}"
    ]


def test_properties_of_all_clients_of_a_source_or_target_take_effect() -> None:
    (flow,) = parse_settings(
        {
            **ONE_FLOW,
            "source.cluster.isolation.level": "read_committed",
            "target.cluster.client.id": "t",
        }
    ).flows

    assert flow.isolation == "read_committed"
    assert flow.target.producer["client.id"] == flow.target.admin["client.id"] == "t"
    assert "client.id" not in flow.source.consumer


def test_a_cluster_may_be_called_source() -> None:
    (flow,) = parse_settings(
        {
            "clusters": "source,target",
            "source.bootstrap.servers": "a:1",
            "target.bootstrap.servers": "b:1",
            "source.consumer.isolation.level": "read_committed",
            "source.cluster.alias": "source",
            "source->target.enabled": "true",
        }
    ).flows

    assert flow.isolation == "read_committed"


def test_a_flow_without_a_key_is_a_problem() -> None:
    assert problems_of({**TWO_CLUSTERS, "A->B": "true"})[0] == (
        "A->B: is a flow without a key; write A->B.enabled"
    )


@pytest.mark.parametrize("value", ["99999999999999", "1_0", "٣", "1e3", "", "9" * 5000])
def test_a_number_beyond_any_use_is_a_problem(value: str) -> None:
    for key in ("emit.heartbeats.interval.seconds", "replication.factor", "offset.lag.max"):
        (problem,) = problems_of({**ONE_FLOW, key: value})
        assert problem.startswith(f"{key}: {value[:300]!r}"[:100])
        assert "is invalid; write " in problem
        assert len(problem) < 500
