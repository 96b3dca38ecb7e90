"""A process with targets runs the flows to them, and without a flow heartbeats only."""

import pytest

from replication.config.parse import parse
from replication.config.values import Raw
from replication.errors import ConfigError
from tests.support.settings import ONE_FLOW, TWO_CLUSTERS, parse_settings, problems_of


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
