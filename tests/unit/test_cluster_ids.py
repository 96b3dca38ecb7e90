"""Of which clusters a flow's state is: stored ids, ids found, and what the file says."""

from collections.abc import Mapping

import pytest

from replication.config.parse import parse
from replication.config.tree import FlowConfig
from replication.errors import IdentityError
from replication.state.cluster_ids import check_ids

STATE = "file:///state"


def flow(more: Mapping[str, str] | None = None) -> FlowConfig:
    servers = {"clusters": "A, B", "A.bootstrap.servers": "a:1", "B.bootstrap.servers": "b:1"}
    settings = {**servers, "A->B.enabled": "true", **(more or {})}
    return parse("test", settings, default_state_dir=STATE).flows[0]


EXPECTED = {"A->B.replication.source.cluster.id": "a2"}


@pytest.mark.parametrize(
    ("stored", "found", "more", "recorded"),
    [
        pytest.param({}, {"A": "a1", "B": "b1"}, {}, {"A": "a1", "B": "b1"}, id="the first start"),
        pytest.param({"A": "a1", "B": "b1"}, {"A": "a1", "B": "b1"}, {}, {}, id="the same ones"),
        pytest.param({"A": "a1"}, {"A": "a1", "B": "b1"}, {}, {"B": "b1"}, id="one is known"),
        pytest.param({"A": "a1"}, {}, {}, {}, id="a cluster that does not answer is not judged"),
        pytest.param({"A": "a1"}, {"A": "a2"}, EXPECTED, {"A": "a2"}, id="rebuilt on purpose"),
    ],
)
def test_ids_that_are_to_be_recorded(
    stored: Mapping[str, str],
    found: Mapping[str, str],
    more: Mapping[str, str],
    recorded: Mapping[str, str],
) -> None:
    assert check_ids(flow(more), STATE, stored, found) == recorded


@pytest.mark.parametrize(
    ("stored", "found", "more", "said"),
    [
        pytest.param({"A": "a1"}, {"A": "a2"}, {}, "a1.* a2.*replication.source", id="source"),
        pytest.param({"B": "b1"}, {"B": "b2"}, {}, "b1.* b2.*replication.target", id="target"),
        pytest.param({}, {"A": "a1"}, EXPECTED, "id a1, but .* is a2", id="not that of the file"),
        pytest.param({"A": "a2"}, {"A": "a1"}, EXPECTED, "id a1, but .* is a2", id="not any more"),
    ],
)
def test_other_clusters_are_refused_with_both_ids(
    stored: Mapping[str, str], found: Mapping[str, str], more: Mapping[str, str], said: str
) -> None:
    with pytest.raises(IdentityError, match=said) as refused:
        check_ids(flow(more), STATE, stored, found)

    assert "nothing was changed" in str(refused.value)
