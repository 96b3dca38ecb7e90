"""The keys of a file decide which flows run, and which pairs of clusters have heartbeats."""

import pytest

from replication.config.values import Raw
from tests.support.settings import ONE_FLOW, TWO_CLUSTERS, parse_settings


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        pytest.param({}, ["A->B at B", "B->A at A"], id="disabled flows too"),
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
def test_which_pairs_emit_heartbeats_to_which_cluster(
    settings: dict[str, Raw], expected: list[str]
) -> None:
    found = parse_settings({**ONE_FLOW, **settings}).heartbeats

    assert [f"{pair.flow} at {pair.alias}" for pair in found] == expected
    servers = {"A": "a:1", "B": "b:1"}
    assert [pair.producer["bootstrap.servers"] for pair in found] == [
        servers[pair.alias] for pair in found
    ]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        pytest.param({"A->B.enabled": "true"}, ["A->B"], id="one"),
        pytest.param({"enabled": "true"}, ["A->B", "B->A"], id="every pair"),
        pytest.param({"enabled": "true", "A->B.enabled": "false"}, ["B->A"], id="all but one"),
        pytest.param({"A -> B.enabled": "True"}, ["A->B"], id="blanks around the arrow"),
    ],
)
def test_which_flows_are_enabled(settings: dict[str, Raw], expected: list[str]) -> None:
    assert [
        str(config.flow) for config in parse_settings({**TWO_CLUSTERS, **settings}).flows
    ] == expected
