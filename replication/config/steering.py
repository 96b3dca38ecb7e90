"""What all changes of a flow come to: a fold over them, on top of the file's lists. Pure.

It needs neither a clock nor a lock: whoever has the same changes has the same result, in whatever
order they were listed.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from replication.config.changes import EDITS, Change, ListName, partition_of
from replication.config.limits import Limit, merge
from replication.config.tree import FlowConfig
from replication.mm2.filters import NameFilter
from replication.model import Flow, TopicPartition


@dataclass(frozen=True, slots=True)
class Paused:
    """What of a flow is not copied now.

    Args:
        flow: Whether that is all of it.
        topics: Names or regexes of upstream topics.
        partitions: Single upstream partitions.
    """

    flow: bool = False
    topics: tuple[str, ...] = ()
    partitions: frozenset[TopicPartition] = frozenset()

    def __bool__(self) -> bool:
        """Returns whether anything is paused."""
        return self.flow or bool(self.topics or self.partitions)

    def covers(self, tp: TopicPartition) -> bool:
        """Returns whether the upstream partition *tp* is paused."""
        return self.flow or tp in self.partitions or NameFilter(self.topics).accepts(tp.topic)

    def among(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Returns those of *partitions* that are paused."""
        return [tp for tp in partitions if self.covers(tp)] if self else []


NOTHING_PAUSED: Final = Paused()


@dataclass(frozen=True, slots=True)
class Steering:
    """What all changes of a flow come to.

    Args:
        edits: Whether an item is in a list, by the list; the file decides of the others.
        paused: What is paused, a hold included.
        held: The operations that hold the flow, by their ids.
        limits: The last limit of each scope, by the scope. One may be for no limit at all.
        in_force: Those of the changes that decide any of this, in their order.
        changes: All of them, in their order: the history.
        undone: The ids of those that are left out.
    """

    edits: Mapping[ListName, Mapping[str, bool]] = field(default_factory=dict)
    paused: Paused = NOTHING_PAUSED
    held: tuple[str, ...] = ()
    limits: Mapping[str, Change] = field(default_factory=dict)
    in_force: tuple[Change, ...] = field(default=(), compare=False)
    changes: tuple[Change, ...] = field(default=(), compare=False)
    undone: frozenset[str] = field(default=frozenset(), compare=False)

    @property
    def number(self) -> int:
        """The highest number of a change; 0 without any."""
        return self.changes[-1].number if self.changes else 0

    def overlaid(self, config: FlowConfig) -> FlowConfig:
        """Returns *config*, as its file has it, with the lists and limits that are in force."""
        if not self.edits and not self.limits:
            return config
        limits = (
            Limit.of_items(change.items, scope or None) for scope, change in self.limits.items()
        )
        groups = replace(
            config.groups,
            groups=self._edited("groups", config.groups.groups),
            groups_exclude=self._edited("groups.exclude", config.groups.groups_exclude),
        )
        return replace(
            config,
            topics=self._edited("topics", config.topics),
            topics_exclude=self._edited("topics.exclude", config.topics_exclude),
            limits=merge([*config.limits, *limits]),
            groups=groups,
        )

    def with_effect(self, config: FlowConfig) -> tuple[Change, ...]:
        """Returns those of the changes in force that change anything of *config*'s file."""
        return tuple(change for change in self.in_force if not _is_idle(change, config))

    def state_of(self, change: Change, config: FlowConfig) -> str:
        """Returns what of *change* is in force, on top of *config* as its file has it."""
        if change.id in self.undone:
            return "undone"
        if change.what in {"undo", "resume", "release"}:
            return "in force"
        if change not in self.in_force:
            return "replaced by a later change"
        return "without effect: the file says the same" if _is_idle(change, config) else "in force"

    def hold_text(self, flow: Flow) -> str:
        """Returns which operations hold *flow*, and the command that ends the first hold."""
        release = f"python -m replication release FILE --flow '{flow}' {self.held[0]}"
        return f"is held by {', '.join(self.held)}: once that has ended, {release}"

    def _edited(self, name: ListName, own: tuple[str, ...]) -> tuple[str, ...]:
        edits = self.edits.get(name, {})
        kept = [item for item in own if edits.get(item, True)]
        return (*kept, *sorted(item for item in edits if edits[item] and item not in own))


NO_CHANGES: Final = Steering()


def fold(changes: Iterable[Change]) -> Steering:
    """Returns what *changes* of one flow come to; neither their order nor a repetition counts."""
    ordered = tuple(sorted({change.name: change for change in changes}.values(), key=_name))
    undone = _undone(ordered)
    deciding = _Deciding()
    for change in ordered:
        if change.id not in undone:
            deciding.add(change)
    return replace(deciding.steering(), changes=ordered, undone=undone)


def _name(change: Change) -> str:
    return change.name


def _undone(ordered: Collection[Change]) -> frozenset[str]:
    """Returns the ids of changes that a later undo leaves out, which is not undone itself."""
    found = set[str]()
    for change in reversed(tuple(ordered)):
        if change.what == "undo" and change.id not in found:
            found.update(item.partition("-")[2] for item in change.items if item < change.name)
    return frozenset(found)


@dataclass(slots=True)
class _Deciding:
    """For each thing that can be changed, the change that decides it."""

    edits: dict[tuple[ListName, str], Change] = field(default_factory=dict)
    flow: dict[str, Change] = field(default_factory=dict)
    topics: dict[str, Change] = field(default_factory=dict)
    partitions: dict[str, dict[int, Change]] = field(default_factory=dict)
    holds: dict[str, Change] = field(default_factory=dict)
    limits: dict[str, Change] = field(default_factory=dict)

    def add(self, change: Change) -> None:
        """Takes the next one."""
        if change.what in EDITS:
            name, _ = EDITS[change.what]
            self.edits |= {(name, item): change for item in change.items}
        elif change.what == "limit":
            self.limits[change.scope] = change
        elif change.what in ("pause", "resume") and not change.items:
            self.flow = {"": change} if change.what == "pause" else {}
        for item in change.items:
            match change.what:
                case "pause":
                    self._pause(item, change)
                case "resume":
                    self._resume(item)
                case "hold":
                    self.holds[item] = change
                case "release":
                    self.holds.pop(item, None)

    def _pause(self, item: str, change: Change) -> None:
        if (tp := partition_of(item)) is None:
            self.topics[item] = change
        else:
            self.partitions.setdefault(tp.topic, {})[tp.partition] = change

    def _resume(self, item: str) -> None:
        """Lifts the pause of *item*; that of topics also those of their partitions."""
        if (tp := partition_of(item)) is not None:
            self.partitions.get(tp.topic, {}).pop(tp.partition, None)
            return
        self.topics.pop(item, None)
        if self.partitions.pop(item, None) is None:
            is_of_item = NameFilter((item,)).accepts
            for topic in [topic for topic in self.partitions if is_of_item(topic)]:
                del self.partitions[topic]

    def steering(self) -> Steering:
        """Returns what they decide."""
        edits: dict[ListName, dict[str, bool]] = {}
        for (name, item), change in self.edits.items():
            edits.setdefault(name, {})[item] = EDITS[change.what][1]
        paused = Paused(
            flow=bool(self.flow or self.holds),
            topics=tuple(sorted(self.topics)),
            partitions=frozenset(
                TopicPartition(topic, number)
                for topic, numbers in self.partitions.items()
                for number in numbers
            ),
        )
        deciding: list[Mapping[Any, Change]] = [self.edits, self.flow, self.topics, self.holds]
        deciding += [self.limits, *self.partitions.values()]
        found = {change.name: change for each in deciding for change in each.values()}
        return Steering(
            edits=edits,
            paused=paused,
            held=tuple(sorted(self.holds)),
            limits=dict(sorted(self.limits.items())),
            in_force=tuple(sorted(found.values(), key=_name)),
        )


def _is_idle(change: Change, config: FlowConfig) -> bool:
    """Returns whether an edit asks only for what the file of *config* has by itself."""
    if change.what not in EDITS:
        return False
    name, is_in = EDITS[change.what]
    own = set(list_of(config, name))
    return all((item in own) == is_in for item in change.items)


def list_of(config: FlowConfig, name: ListName) -> tuple[str, ...]:
    """Returns the list *name* of *config*."""
    lists: Mapping[ListName, tuple[str, ...]] = {
        "topics": config.topics,
        "topics.exclude": config.topics_exclude,
        "groups": config.groups.groups,
        "groups.exclude": config.groups.groups_exclude,
    }
    return lists[name]
