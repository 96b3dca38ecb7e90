"""Where new copies end: nobody asks, unless the flow may have written there before."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

import pytest

from replication.control.starts import StoredMap
from replication.model import Position, TopicPartition
from replication.positions.flow_clients import IdleFlowClients
from replication.positions.measure import current_spans
from replication.state.table_reader import Anchor
from replication.upkeep.prepare import prepare_topics
from tests.support.local import Clusters
from tests.support.remote_topics import Sides, create, flow_config
from tests.support.topics import send

pytestmark = pytest.mark.cluster


def stored(
    anchors: Mapping[TopicPartition, Anchor] = MappingProxyType({}),
    remote_ids: Mapping[str, str] = MappingProxyType({}),
) -> StoredMap:
    """What an offset map says."""
    return StoredMap(anchors, remote_ids, runs=lambda _: ())


def test_only_what_the_flow_cannot_have_written_counts_as_empty(
    sides: Sides, clusters: Clusters, name: str
) -> None:
    source, target = sides
    create(source, name, 2)
    config = flow_config(name, replication_factor="1")
    plan = prepare_topics(config, source, target)
    first, second = (TopicPartition(name, number) for number in range(2))
    send(clusters[1], f"A.{name}", 2, 2)  # one record in each: an answer would be 1

    def ends(known: StoredMap, made: frozenset[str] = plan.made) -> list[int]:
        with IdleFlowClients(config, sides) as asked:
            found = current_spans(asked, replace(plan, made=made), known).target_ends
        return [found[first], found[second]]

    anchor = Anchor(Position(0, 0), plan.source_ids[name])
    assert ends(stored()) == [0, 0]
    assert ends(stored(anchors={first: anchor})) == [1, 0]
    assert ends(stored(remote_ids={f"A.{name}": "of an earlier one"})) == [1, 1]
    assert ends(stored(), frozenset()) == [1, 1]
    assert ends(stored(), frozenset({f"A.{name}-other"})) == [1, 1]
