"""Keys of MirrorMaker 2 and SRM are taken: silently, with a warning, or refused with a reason."""

import pytest

from replication.config.values import Raw
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
        "topics.blacklist: has no effect: topics.exclude is given as well and wins",
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


def test_addresses_at_top_level_are_those_of_clusters_without_any() -> None:
    config = parse_settings(
        {
            "clusters": "A,B", "A->B.enabled": "true", "bootstrap.servers": "a:1, a:2,",
            "B.bootstrap.servers": "b:1,",
        }
    )  # fmt: skip
    (flow,) = config.flows

    assert flow.source.admin["bootstrap.servers"] == "a:1,a:2"
    assert flow.target.producer["bootstrap.servers"] == "b:1"


def test_client_keys_at_top_level_are_without_effect_and_said_to_be() -> None:
    client = {"bootstrap.servers": "c:1", "isolation.level": "read_committed", "acks": "1"}

    warnings = parse_settings({**ONE_FLOW, **client}).warnings

    assert "bootstrap.servers: has no effect: each cluster has its own addresses" in warnings
    assert (
        "isolation.level: has no effect, as in MirrorMaker 2: it is a client property; write "
        "A.isolation.level"
    ) in warnings
    assert any(warning.startswith("acks: has no effect") for warning in warnings)


@pytest.mark.parametrize("servers", ["", ",", "a", "a:1,b", "a:1;b:1"])
def test_addresses_that_are_none_stay_a_problem(servers: str) -> None:
    (problem,) = problems_of({**ONE_FLOW, "A.bootstrap.servers": servers})

    assert problem.startswith("A.bootstrap.servers: ")


def test_a_file_without_an_enabled_flow_is_told_of_the_flow_that_it_names() -> None:
    settings = {**TWO_CLUSTERS, "B->A.topics": "x", "emit.heartbeats.enabled": "false"}

    (problem,) = problems_of(settings)

    assert problem.startswith("B->A.enabled: no flow is enabled")
