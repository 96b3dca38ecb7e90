"""What operators change of a flow while it runs: each change as a value and as a text. Pure.

A change is never altered; `fold` says what all of them come to.
"""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal, cast, get_args

from replication.config.limits import NO_LIMIT, Limit, LimitError, merge
from replication.config.tree import FlowConfig
from replication.foreign_json import AS_TEXT, in_json, read_json, to_json
from replication.mm2.filters import NameFilter, impossible, pattern_problem
from replication.model import Flow, TopicPartition

Order = Literal[
    "topics.add",
    "topics.remove",
    "topics.exclude",
    "topics.include",
    "groups.add",
    "groups.remove",
    "groups.exclude",
    "groups.include",
    "pause",
    "resume",
    "hold",
    "release",
    "limit",
]
"""What an operator asks for."""

What = Literal[Order, "undo"]

ListName = Literal["topics", "topics.exclude", "groups", "groups.exclude"]

EDITS: Final[Mapping[str, tuple[ListName, bool]]] = MappingProxyType(
    {
        "topics.add": ("topics", True),
        "topics.remove": ("topics", False),
        "topics.exclude": ("topics.exclude", True),
        "topics.include": ("topics.exclude", False),
        "groups.add": ("groups", True),
        "groups.remove": ("groups", False),
        "groups.exclude": ("groups.exclude", True),
        "groups.include": ("groups.exclude", False),
    }
)
"""The list that a change edits, and whether its items are in it afterwards."""

LONGEST_REASON: Final = 1000
"""In characters, as of every other text of a change."""

MOST_ITEMS: Final = 1000
"""Of one change."""

_DIGITS: Final = 10
HIGHEST: Final = 10**_DIGITS - 1
"""Of the numbers of changes."""

_NAME: Final = re.compile(r"(?P<number>[0-9]{10})-(?P<id>[0-9a-f]{32})", re.ASCII)
_PARTITION: Final = re.compile(r"(?P<topic>[A-Za-z0-9._-]{1,249}):(?P<number>[0-9]{1,9})", re.ASCII)
_OPERATION: Final = re.compile(r"[A-Za-z0-9._-]{1,100}", re.ASCII)
_PAUSES: Final = ("pause", "resume")
HOLDS: Final = ("hold", "release")


@dataclass(frozen=True, slots=True)
class Change:
    """One change of *flow*.

    Args:
        flow: The flow.
        what: What is changed.
        items: Items of a list; what is paused or resumed, none for the whole flow; the id of an
            operation that holds the flow; ``bytes=N`` and ``records=N``; the name of an undone one.
        scope: The topics that a limit is for, a name or a regex; empty for the whole flow.
        by: Who asked, and on which host: ``ann@desk``.
        at: When, by the clock of that host.
        reason: The operator's words; may be empty.
        number: One more than the highest that the writer knew.
        id: Of this change alone. It orders changes of one number, which two writers may take.
    """

    flow: Annotated[Flow, AS_TEXT]
    what: What
    items: tuple[str, ...] = ()
    scope: str = ""
    by: str = ""
    at: str = ""
    reason: str = ""
    number: int = field(default=0, metadata=in_json(""))
    id: str = field(default="", metadata=in_json(""))

    @property
    def name(self) -> str:
        """Its name among the changes of its flow; they are folded in the order of names."""
        return f"{self.number:0{_DIGITS}d}-{self.id}"

    @property
    def text(self) -> str:
        """What it changes, in the words of the command line."""
        items = [str(int(each[:_DIGITS])) if self.what == "undo" else each for each in self.items]
        if self.what == "limit":  # a rate of 0 is one that it does not have
            items = [each for each in items if not each.endswith("=0")] or [NO_LIMIT]
        words = " ".join(items) or ("the whole flow" if self.what in _PAUSES else "")
        scope = f" for topics {self.scope}" if self.scope else ""
        return f"{self.what} {words}{scope}".strip()

    @property
    def origin(self) -> str:
        """Who made it, when and why."""
        return f"{self.by}, {self.at}{f': {self.reason}' if self.reason else ''}"


def problems_of(change: Change) -> list[str]:
    """Returns what is wrong with *change* in itself, whatever flow it is for."""
    texts = {"by": change.by, "at": change.at, "reason": change.reason, "scope": change.scope}
    long = [name for name, text in texts.items() if len(text) > LONGEST_REASON]
    found = [f"{name} has more than {LONGEST_REASON} characters" for name in long]
    if not change.by.strip():
        found.append("nobody is named who makes this change")
    if len(change.items) > MOST_ITEMS:
        found.append(f"it has {len(change.items)} items; at most {MOST_ITEMS} go in one change")
    return [*found, *_item_problems(change)]


def _item_problems(change: Change) -> Iterator[str]:
    what, items = change.what, change.items
    if not items and what not in _PAUSES:
        yield f"{what} needs at least one item"
    if change.scope and what != "limit":
        yield f"only a limit has a scope, {what} has none"
    if what in EDITS or what in _PAUSES:
        is_of_groups = what.startswith("groups")
        for item in items:
            if what in EDITS or partition_of(item) is None:
                yield from pattern_problems(item, is_of_groups=is_of_groups)
    elif what == "limit":
        yield from _limit_problems(change)
    elif what in HOLDS:
        for item in _unlike(_OPERATION, items):
            yield (
                f"{item!r} cannot name an operation; write letters, digits, '.', '_' and '-', at "
                "most 100"
            )
    elif what == "undo":
        yield from (f"{item!r} is not the name of a change" for item in _unlike(_NAME, items))


def _limit_problems(change: Change) -> Iterator[str]:
    if change.scope:
        yield from pattern_problems(change.scope)
    try:
        Limit.of_items(change.items)
    except LimitError as error:
        yield str(error)


def pattern_problems(item: str, *, is_of_groups: bool = False) -> Iterator[str]:
    """Yields what keeps *item* from being one of a list of topics or groups."""
    if not item.strip():
        yield "an item is empty; write a name or a Java regex"
    elif item != item.encode(errors="replace").decode():
        yield f"{item!r} is no text in UTF-8"
    elif "," in item:
        yield f"{item!r} has a comma, which separates items in a list; give each by itself"
    elif problem := pattern_problem(item) or impossible(item, is_of_groups=is_of_groups):
        yield problem


def _unlike(pattern: re.Pattern[str], items: Iterable[str]) -> list[str]:
    return [item for item in items if not pattern.fullmatch(item)]


def partition_of(item: str) -> TopicPartition | None:
    """Returns the partition that *item* of a pause names, ``clicks:3``; None if it names topics."""
    found = _PARTITION.fullmatch(item)
    return TopicPartition(found["topic"], int(found["number"])) if found else None


def id_in(name: str) -> str | None:
    """Returns the id in the *name* of a change; None if it is no name of a change."""
    found = _NAME.fullmatch(name)
    return found["id"] if found else None


def parse_change(text: str, name: str) -> Change:
    """Returns the change *name* whose content is *text*.

    Raises:
        ValueError: It is none, or cannot be followed; the error says what is wrong.
    """
    return _change(_json(text), name)


def parse_changes(text: str) -> tuple[Change, ...]:
    """Returns the changes in *text*, which `text_of_changes` has made.

    Raises:
        ValueError: It is something else; the error says what is wrong.
    """
    changes = _json(text).get("changes")
    if not isinstance(changes, dict):
        raise ValueError("no changes")  # noqa: TRY004 - the text is wrong, not the program
    return tuple(_change(content, name) for name, content in changes.items())


def text_of_changes(changes: Iterable[Change]) -> str:
    return json.dumps({"changes": {change.name: to_json(change) for change in changes}})


def _json(text: str) -> Mapping[str, Any]:
    content = read_json(text)
    if not isinstance(content, dict):
        raise ValueError("no JSON object")  # noqa: TRY004 - the text is wrong, not the program
    return content


def _change(content: object, name: str) -> Change:
    if not isinstance(content, dict):
        raise ValueError("no JSON object")  # noqa: TRY004 - the text is wrong, not the program
    number, _, uid = name.partition("-")
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is not the name of a change")
    texts = {key: content.get(key, "") for key in ("flow", "what", "scope", "by", "at", "reason")}
    if wrong := [key for key, value in texts.items() if not isinstance(value, str)]:
        raise ValueError(f"{', '.join(wrong)} must be text")
    items = content.get("items", [])
    if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
        raise ValueError("items must be a list of texts")
    source, arrow, target = texts["flow"].partition("->")
    if not (source and arrow and target):
        raise ValueError(f"{texts['flow']!r} is no flow; write A->B")
    if texts["what"] not in get_args(What):
        raise ValueError(f"{texts['what']!r} is nothing that this version can change")
    change = Change(
        Flow(source, target), cast("What", texts["what"]), tuple(items), texts["scope"],
        texts["by"], texts["at"], texts["reason"], int(number), uid,
    )  # fmt: skip
    if problems := problems_of(change):
        raise ValueError("; ".join(problems))
    return change


# What all changes of a flow come to: a fold over them, on top of the file's lists.
#
# It needs neither a clock nor a lock: whoever has the same changes has the same result, in
# whatever order they were listed.


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
        return self.flow or bool(self.topics or self.partitions)

    def covers(self, tp: TopicPartition) -> bool:
        """Returns whether the upstream partition *tp* is paused."""
        return self.flow or tp in self.partitions or NameFilter(self.topics).accepts(tp.topic)

    def among(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        return [tp for tp in partitions if self.covers(tp)] if self else []


NOTHING_PAUSED: Final = Paused()


@dataclass(frozen=True, slots=True)
class Overrides:
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


NO_CHANGES: Final = Overrides()


def fold(changes: Iterable[Change]) -> Overrides:
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

    def steering(self) -> Overrides:
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
        return Overrides(
            edits=edits,
            paused=paused,
            held=tuple(sorted(self.holds)),
            limits=dict(sorted(self.limits.items())),
            in_force=tuple(sorted(found.values(), key=_name)),
        )


def _is_idle(change: Change, config: FlowConfig) -> bool:
    """Returns whether *change* asks only for what the file of *config* has by itself."""
    if change.what == "limit":
        limit = Limit.of_items(change.items, change.scope or None)
        return merge([*config.limits, limit]) == merge(config.limits)
    if change.what not in EDITS:
        return False
    name, is_in = EDITS[change.what]
    own = set(list_of(config, name))
    return all((item in own) == is_in for item in change.items)


def list_of(config: FlowConfig, name: ListName) -> tuple[str, ...]:
    lists: Mapping[ListName, tuple[str, ...]] = {
        "topics": config.topics,
        "topics.exclude": config.topics_exclude,
        "groups": config.groups.groups,
        "groups.exclude": config.groups.groups_exclude,
    }
    return lists[name]
