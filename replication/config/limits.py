"""How much a flow, or some of its topics, may copy a second. Pure."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, TypeVar

from replication.mm2.filters import NameFilter, pattern_problem

LIMIT_BYTES: Final = "replication.limit.bytes.per.second"
LIMIT_RECORDS: Final = "replication.limit.records.per.second"
LIMIT_TOPICS: Final = "replication.limit.topics"
LEAST_BYTES: Final = 1_000
LEAST_RECORDS: Final = 1
MOST_RATE: Final = 10**15
"""More than any flow copies, and what a double still holds exactly."""

_UNITS: Final = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9}
_UNITS_OF_MEMORY: Final = {"KIB": 2**10, "MIB": 2**20, "GIB": 2**30}
_AMOUNT: Final = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?) ?([A-Za-z]*)(?:/s)?")
_ITEM: Final = re.compile(r"(bytes|records)=([0-9]{1,18})")
_PAUSE: Final = "pause instead"
NO_LIMIT: Final = "none"
"""What an operator writes in place of rates, so that a limit ends."""

_Shown = Callable[[float], str]


class LimitError(ValueError):
    """A limit that cannot be: the text says what to write."""


@dataclass(frozen=True, slots=True)
class Limit:
    """What may be copied a second; None for as much as the clusters take.

    Args:
        topics: A name or regex of upstream topics, which have the limit together; None for all
            topics of the flow.
        bytes_per_second: Of keys, values and headers, uncompressed.
        records_per_second: How many records.
    """

    topics: str | None = None
    bytes_per_second: int | None = None
    records_per_second: int | None = None

    @classmethod
    def of_items(cls, items: Iterable[str], topics: str | None = None) -> "Limit":
        """Returns the limit that the *items* of a change say, such as ``bytes=20000000``."""
        found = dict[str, int | None]()
        for item in items:
            match = _ITEM.fullmatch(item)
            if match is None:
                raise LimitError(
                    f"{item!r}: write bytes=N or records=N, for example bytes=20000000; to end a "
                    f"limit, write {NO_LIMIT} (limit --none) and nothing else"
                )
            if match[1] in found:
                raise LimitError(f"{match[1]} is given twice: write one rate")
            found[match[1]] = int(match[2]) or None
        limit = cls(topics, found.get("bytes"), found.get("records"))
        limit.check()
        return limit

    @property
    def items(self) -> tuple[str, ...]:
        """The items of the change that says this limit; 0 for both rates if there is none."""
        rates = {"bytes": self.bytes_per_second, "records": self.records_per_second}
        given = {name: rate for name, rate in rates.items() if rate} or dict.fromkeys(rates, 0)
        return tuple(f"{name}={rate}" for name, rate in given.items())

    @property
    def is_none(self) -> bool:
        """Whether it limits nothing: what it says is that an earlier one of its scope is over."""
        return self.bytes_per_second is None and self.records_per_second is None

    def covers(self, topic: str) -> bool:
        """Returns whether records of the upstream *topic* count."""
        return self.topics is None or NameFilter((self.topics,)).accepts(topic)

    def check(self) -> None:
        if problem := next(_problems(self), None):
            raise LimitError(problem)

    def __str__(self) -> str:
        rates = (
            None if self.bytes_per_second is None else bytes_text(self.bytes_per_second),
            None if self.records_per_second is None else records_text(self.records_per_second),
        )
        shown = " and ".join(rate for rate in rates if rate) or "no limit"
        return shown if self.topics is None else f"{shown} for {self.topics}"


def _problems(limit: Limit) -> Iterator[str]:
    least = (
        (limit.bytes_per_second, LEAST_BYTES, bytes_text),
        (limit.records_per_second, LEAST_RECORDS, records_text),
    )
    for rate, lowest, shown in least:
        if rate is not None and rate < lowest:
            yield f"{shown(rate)} is below the lowest limit, {shown(lowest)}: {_PAUSE}"
        if rate is not None and rate > MOST_RATE:
            yield f"write {shown(MOST_RATE)} or less"
    if limit.topics is not None and (problem := pattern_problem(limit.topics)):
        yield problem


def parse_bytes(text: str) -> int:
    """Returns the bytes a second that *text* says: ``20MB``, ``1.5 MB/s``, ``512KiB``, ``20000``.

    Raises:
        LimitError: It says none, or fewer than a limit may have.
    """
    return _rate(text, _UNITS | _UNITS_OF_MEMORY, "20MB", LEAST_BYTES, bytes_text)


def parse_records(text: str) -> int:
    """Returns the records a second that *text* says: ``5000``, ``5000/s``, ``5000 records/s``.

    Raises:
        LimitError: It says none, or less than one.
    """
    units = {"RECORD": 1, "RECORDS": 1}
    return _rate(text, units, "5000", LEAST_RECORDS, records_text)


def parse_limit(items: Iterable[str], topics: str | None = None) -> Limit:
    """Returns the limit that an operator asks for: ``bytes=20MB``, ``records=5000``, or ``none``.

    A rate of 0 is refused: it might mean no limit, and nothing at all.

    Raises:
        LimitError: It cannot be.
    """
    asked = tuple(items)
    return Limit.of_items(() if asked == (NO_LIMIT,) else map(_plain, asked), topics)


def _plain(item: str) -> str:
    """Returns an item of a limit with a plain number; one that is something else as it is."""
    name, _, rate = item.partition("=")
    parse = {"bytes": parse_bytes, "records": parse_records}.get(name)
    return item if parse is None else f"{name}={parse(rate)}"


def parse_topics_limit(item: str) -> Limit:
    """Reads an item of ``replication.limit.topics``: ``clicks.* 2MB/s 500 records/s``."""
    topics, *words = item.split()
    if not words:
        raise LimitError(f"{item!r} has no rate: write for example '{topics} 2MB/s 500records/s'")
    found = dict[str, int]()
    for rate in re.sub(r"(?<=[0-9]) (?=[A-Za-z])", "", " ".join(words)).split():
        if rate.removesuffix("/s").isdecimal():
            raise LimitError(f"{item!r}: write {rate} with MB or records")
        kind = "records" if "record" in rate.lower() else "bytes"
        if kind in found:
            raise LimitError(f"{item!r} has two rates in {kind}: write one")
        found[kind] = (parse_records if kind == "records" else parse_bytes)(rate)
    limit = Limit(topics, found.get("bytes"), found.get("records"))
    limit.check()
    return limit


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """The limits that a file gives to a flow, and what is wrong with each key."""

    limits: tuple[Limit, ...]
    problems: tuple[tuple[str, str], ...]


def read_limits(of_bytes: str, of_records: str, of_topics: Iterable[str]) -> ReadLimits:
    """Returns what the values of the keys `LIMIT_BYTES`, `LIMIT_RECORDS`, `LIMIT_TOPICS` say."""
    size, problem = _tried(parse_bytes, of_bytes) if of_bytes.strip() else (None, "")
    problems = [(LIMIT_BYTES, problem)]
    count, problem = _tried(parse_records, of_records) if of_records.strip() else (None, "")
    problems.append((LIMIT_RECORDS, problem))
    limits = [Limit(None, size, count)]
    for item in of_topics:
        limit, problem = _tried(parse_topics_limit, item)
        problems.append((LIMIT_TOPICS, problem))
        if limit is not None:
            is_second = limit.topics in {other.topics for other in limits}
            problems.append((LIMIT_TOPICS, f"{limit.topics!r} has two limits" * is_second))
            limits.append(limit)
    return ReadLimits(merge(limits), tuple((key, text) for key, text in problems if text))


_Found = TypeVar("_Found")


def _tried(parse: Callable[[str], _Found], text: str) -> tuple[_Found | None, str]:
    try:
        return parse(text), ""
    except LimitError as error:
        return None, str(error)


def _rate(text: str, units: Mapping[str, int], example: str, least: int, shown: _Shown) -> int:
    match = _AMOUNT.fullmatch(text.strip())
    unit = match[2].upper() if match else ""
    if match is None or (unit and unit not in units):
        raise LimitError(f"{text!r} is no rate: write for example {example}")
    rate = Fraction(match[1]) * units.get(unit, 1)
    if rate < least:
        raise LimitError(
            f"{text.strip()} is below the lowest limit, {shown(least)}: {_PAUSE}; for no limit "
            f"leave the key out, and end the limit of a running flow with limit --none (by REST "
            f"the item {NO_LIMIT})"
        )
    if rate > MOST_RATE:
        raise LimitError(f"write {shown(MOST_RATE)} or less")
    return int(rate)


def merge(limits: Iterable[Limit]) -> tuple[Limit, ...]:
    """Returns the *limits* in force, given oldest first: the last one of a scope wins as a whole.

    The flow's own comes first, then those of topics by their text.
    """
    last = {limit.topics: limit for limit in limits}
    ordered = sorted(
        last.values(), key=lambda limit: (limit.topics is not None, limit.topics or "")
    )
    return tuple(limit for limit in ordered if not limit.is_none)


def bytes_text(rate: float) -> str:
    """Returns *rate* as people write it: ``20 MB/s``, ``1.5 KB/s``."""
    fitting = (name for name in _UNITS if _UNITS[name] <= rate)
    unit = max(fitting, key=_UNITS.__getitem__, default="B")
    return f"{_short(rate / _UNITS[unit])} {unit}/s"


def records_text(rate: float) -> str:
    """Returns *rate* as people write it: ``5000 records/s``."""
    return f"{_short(rate)} record{'' if rate == 1 else 's'}/s"


def _short(number: float) -> str:
    return f"{number:.2f}".rstrip("0").rstrip(".")
