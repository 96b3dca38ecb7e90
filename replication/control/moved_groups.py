"""The consumer groups whose translation changes when a position is moved."""

from collections.abc import Mapping
from dataclasses import dataclass

from replication.config.tree import FlowConfig
from replication.control.groups import read_groups
from replication.errors import ClusterError, SetupError
from replication.kafka.cluster import Cluster
from replication.kafka.consumer_groups import Groups
from replication.kafka.jvm import shared_jvm
from replication.model import Committed, TopicPartition
from replication.offsets.map import OffsetMap, Translation
from replication.offsets.moved import MovedPosition
from replication.offsets.runs import OffsetRun
from replication.offsets.wording import fields


@dataclass(frozen=True, slots=True)
class MovedGroup:
    """A group whose committed offset on the source means another one on the target by a move.

    Args:
        group: Its name.
        partition: Upstream.
        committed: What it has committed on the source.
        before: What that is on the target now.
        after: What it will be when everything is copied that the move has copied again.
    """

    group: str
    partition: TopicPartition
    committed: int
    before: Translation
    after: Translation

    def document(self) -> dict[str, object]:
        """Returns what a command prints as JSON."""
        return {
            "group": self.group,
            **self.partition._asdict(),
            "committed": self.committed,
            "before": fields(self.before),
            "after": fields(self.after),
        }


@dataclass(frozen=True, slots=True)
class MovedMap:
    """The offset map of a partition that is to be moved.

    Args:
        runs: The map as it is stored.
        moved: What is done to the partition.
        records: How many records are left out or copied again; None if that is not known.
    """

    runs: tuple[OffsetRun, ...]
    moved: MovedPosition
    records: int | None

    @property
    def before(self) -> OffsetMap:
        """The map without the move."""
        return OffsetMap([*self.runs, *self.moved.before.runs])

    @property
    def after(self) -> OffsetMap:
        """The map when what is copied again has been copied."""
        return OffsetMap([*self.runs, *self.moved.new_runs(), *self._copied_again()])

    def _copied_again(self) -> list[OffsetRun]:
        if (span := self.moved.copied_again) is None:
            return []
        width = span[1] - span[0]
        count = width if self.records is None else min(width, self.records)
        return [OffsetRun(*span, self.moved.position.downstream, count)]


def changed_groups(
    committed: Mapping[str, Mapping[TopicPartition, Committed]],
    maps: Mapping[TopicPartition, MovedMap],
) -> tuple[MovedGroup, ...]:
    """Returns those of the groups that have *committed* something whose translation changes."""
    befores = {tp: each.before for tp, each in maps.items()}
    afters = {tp: each.after for tp, each in maps.items()}
    found = (
        MovedGroup(
            group, tp, at.offset, befores[tp].translate(at.offset), afters[tp].translate(at.offset)
        )
        for group, offsets in sorted(committed.items())
        for tp, at in sorted(offsets.items())
        if tp in maps
    )
    return tuple(each for each in found if each.before != each.after)


def moved_groups(
    config: FlowConfig, source: Cluster, maps: Mapping[TopicPartition, MovedMap]
) -> tuple[tuple[MovedGroup, ...], tuple[str, ...]]:
    """Returns the groups whose translation changes, and a line for each that is not known."""
    try:
        with Groups(shared_jvm(), config.source.alias, config.source.admin) as groups:
            read = read_groups(source, groups, config.groups.accepts, ())
    except (ClusterError, SetupError) as error:
        return (), (f"the groups whose translation changes are not known: {error}",)
    return changed_groups(read.committed, maps), read.problems
