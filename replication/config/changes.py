"""What operators change of a flow while it runs: each change as a value and as a text. Pure.

A change is never altered. `replication.config.steering` says what all of them come to.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Literal, cast, get_args

from replication.config.limits import Limit, LimitError
from replication.foreign_json import read_json
from replication.mm2.filters import pattern_problem
from replication.mm2.possible import impossible
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

    flow: Flow
    what: What
    items: tuple[str, ...] = ()
    scope: str = ""
    by: str = ""
    at: str = ""
    reason: str = ""
    number: int = 0
    id: str = ""

    @property
    def name(self) -> str:
        """Its name among the changes of its flow; they are folded in the order of names."""
        return f"{self.number:0{_DIGITS}d}-{self.id}"

    @property
    def text(self) -> str:
        """What it changes, in the words of the command line."""
        items = [str(int(each[:_DIGITS])) if self.what == "undo" else each for each in self.items]
        words = " ".join(items) or ("the whole flow" if self.what in _PAUSES else "")
        scope = f" for topics {self.scope}" if self.scope else ""
        return f"{self.what} {words}{scope}".strip()

    @property
    def origin(self) -> str:
        """Who made it, when and why."""
        return f"{self.by}, {self.at}{f': {self.reason}' if self.reason else ''}"

    def document(self) -> dict[str, Any]:
        """Returns its content; `parse_change` reads it."""
        return {
            "flow": str(self.flow),
            "what": self.what,
            "items": list(self.items),
            "scope": self.scope,
            "by": self.by,
            "at": self.at,
            "reason": self.reason,
        }


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
    """Yields what is wrong with the items of *change*."""
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
    """Yields what is wrong with the scope and the rates of a limit."""
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
    """Returns *changes* as one text."""
    return json.dumps({"changes": {change.name: change.document() for change in changes}})


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
