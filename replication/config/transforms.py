"""A flow's transforms, ``replication.transforms.NAME.*``: read, checked, and stored as text. Pure.

What Spark alone can tell of an expression, such as its type, `replication.spark.copies` asks.
"""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, cast

from replication.config.values import Raw, closest, items, one_of, text
from replication.mm2.filters import impossible, pattern_problem
from replication.model import PROVENANCE, Chain, Transform, Unknown

# What the text of an expression of Spark SQL tells: is it whole, and the same each time?
#
# A start compares the last records of the target with what the source's records become, so that an
# expression must give the same bytes for the same record whenever it is evaluated. Spark knows
# most functions that do not, but not all: those of `UNSTEADY` it calls deterministic.


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


UNSTEADY: Final = (
    _words("current_catalog current_database current_date current_schema current_time curdate")
    | _words("current_timestamp current_timezone current_user localtimestamp now session_user")
    | _words("input_file_block_length input_file_block_start input_file_name user version")
    | _words("java_method monotonically_increasing_id reflect spark_partition_id try_reflect")
    | _words("rand randn random randstr shuffle uniform uuid")
)
"""Functions whose value depends on when, where or by whom they are evaluated."""

FAILING: Final = _words("assert_true raise_error")
"""Functions whose failure would not name the record."""

_BARE: Final = _words(
    "current_catalog current_date current_schema current_time current_timestamp current_user "
    "localtimestamp session_user"
)
"""Those of `UNSTEADY` that are called without parentheses as well."""

_TYPES_OF_TIME: Final = _words("date timestamp timestamp_ltz timestamp_ntz")
_TIMES: Final = re.compile(r"\s*(now|today|tomorrow|yesterday)\b", re.IGNORECASE)
_TOKEN: Final = re.compile(
    r"""(?P<space>\s+|\Z)|(?P<comment>--|/\*)|(?P<string>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
    r"""|(?P<name>[^\W\d]\w*|`(?:[^`]|``)*`)|(?P<open>[('"`\[])|(?P<close>[)\]])|(?P<other>.)""",
    re.DOTALL,
)
_PAIRS: Final = {")": "(", "]": "["}
_ADVICE: Final = "it must give the same for the same record each time"


def sql_problems(expression: str) -> list[str]:
    """Returns what is wrong with *expression*, as far as its text tells; nothing if it may do."""
    if not expression.strip():
        return ["is empty; write an expression of Spark SQL, or remove the key"]
    tokens = [
        (found.lastgroup or "", found.group())
        for found in _TOKEN.finditer(expression)
        if found.lastgroup not in (None, "space")
    ]
    return [*_broken(tokens), *_unsteady(tokens)]


def is_time_of_day(text: str) -> bool:
    """Returns whether *text*, as a date or a time, means another one on another day."""
    return _TIMES.match(text) is not None


def failing(name: str) -> str:
    """Returns the problem of an expression that calls the function *name*, which fails a query."""
    return f"calls {name}, which fails for all topics; give NULL, which names the record"


def unsteady(name: str) -> str:
    """Returns the problem of an expression that calls the function *name*."""
    return f"calls {name}: {_ADVICE}"


def _broken(tokens: list[tuple[str, str]]) -> Iterator[str]:
    opened: list[str] = []
    for kind, piece in tokens:
        if kind == "comment" or piece == ";":
            yield f"has {piece} outside of quotes; write one expression without comments"
            return
        if kind == "open" and piece not in "([":
            yield f"has a {piece} that is not closed"
            return
        if kind == "open":
            opened.append(piece)
        elif kind == "close" and (not opened or opened.pop() != _PAIRS[piece]):
            yield f"has a {piece} that closes nothing"
            return
    if opened:
        yield f"has a {opened[-1]} that is not closed"


def _unsteady(tokens: list[tuple[str, str]]) -> Iterator[str]:
    """Yields what makes the value depend on more than the record."""
    found: dict[str, None] = {}
    around = zip([("", ""), *tokens], tokens, [*tokens[1:], ("", "")], strict=False)
    for (_, before), (kind, piece), (kind_after, after) in around:
        name = piece.lower()
        if kind != "name" or before == ".":
            continue
        if name == "select":
            found["is a subquery; an expression sees one record"] = None
        if name in UNSTEADY and (after == "(" or (name in _BARE and after != ".")):
            found[unsteady(name)] = None
        if name in FAILING and after == "(":
            found[failing(name)] = None
        if name == "unix_timestamp" and after == "(" and _is_without_arguments(tokens, piece):
            found[unsteady("unix_timestamp()")] = None
        if name in _TYPES_OF_TIME and kind_after == "string" and is_time_of_day(after[1:]):
            found[f"has the time {name} {after}: {_ADVICE}"] = None
    yield from found


def _is_without_arguments(tokens: list[tuple[str, str]], name: str) -> bool:
    texts = [text for _, text in tokens]
    calls = (at for at, text in enumerate(texts) if text == name)
    return any(texts[at + 1 : at + 3] == ["(", ")"] for at in calls)


TRANSFORMS: Final = "replication.transforms"
PREFIX: Final = f"{TRANSFORMS}."
ADD: Final = "headers.add."

_NAME: Final = re.compile(r"[A-Za-z0-9_-]+")
_SQL: Final = ("filter", "key", "value", "headers")
_CHOICES: Final = {
    "unknown": ("fail", "drop", "keep"),
    "nullable": ("true", "false"),
    "key.injective": ("true", "false"),
}
_ENDS: Final = (*_SQL, "topics", "headers.remove", *_CHOICES, f"{ADD}NAME")
_ROUTING: Final = ("topic", "partition", "offset", "timestamp", "route", "routing")
_INTERNAL: Final = re.compile(r"__.*|mm2.*internal|(.*[^A-Za-z0-9])?checkpoints.internal")
_HEARTBEATS: Final = re.compile(r"(.*[^A-Za-z0-9])?heartbeats")
_TO_NOBODY: Final = "it would change records that the mirror itself reads"


@dataclass(slots=True)
class ReadTransforms:
    """The transforms of a flow, and what is wrong with them: pairs of a key and a problem."""

    transforms: Chain = ()
    problems: list[tuple[str, str]] = field(default_factory=list)


def end_of(key: str) -> tuple[str, str]:
    """Returns the transform's name and the rest of *key*, which begins with `PREFIX`."""
    name, _, end = key.removeprefix(PREFIX).partition(".")
    return name, end


def read_transforms(
    listed: Collection[str], settings: Mapping[str, Raw], hidden: Collection[str] = ()
) -> ReadTransforms:
    """Returns the transforms that *settings* define, in the order in which they are *listed*.

    Args:
        listed: The value of `TRANSFORMS`.
        settings: By key, without the flow; others than those that begin with `PREFIX` are ignored.
        hidden: Those of the keys whose values no message may show.
    """
    own: dict[str, dict[str, Raw]] = {name: {} for name in listed}
    read = ReadTransforms()
    for key, raw in settings.items():
        if not key.startswith(PREFIX):
            continue
        name, end = end_of(key)
        if name in own:
            own[name][end] = raw
        else:
            read.problems.append((key, _unlisted(name, own)))
    for name, values in own.items():
        found = list(_problems(name, values))
        read.problems += ((key, problem) for key, problem in found)
        if not found:
            secret = any(key in hidden for key in settings if key.startswith(f"{PREFIX}{name}."))
            read.transforms = (*read.transforms, _transform(name, values, hidden=secret))
    return read


def chain_text(chain: Chain, version: str) -> str:
    """Returns *chain* as text for a table; what does not change a record is left out.

    *version* is that of the Spark that evaluates it.
    """
    steps = [
        {
            "filter": one.filter,
            "key": one.key,
            "value": one.value,
            "headers": one.headers,
            "headers.remove": list(one.headers_remove),
            "headers.add": [list(pair) for pair in one.headers_add],
            "unknown": one.unknown,
            "nullable": one.nullable,
        }
        for one in chain
    ]
    return json.dumps({"spark": version, "steps": steps}, separators=(",", ":"))


def chain_from(stored: str) -> Chain:
    """Returns the chain that `chain_text` has written."""
    try:
        return tuple(
            Transform(
                name=f"recorded-{number}",
                topics=(),
                filter=step["filter"],
                key=step["key"],
                value=step["value"],
                headers=step["headers"],
                headers_remove=tuple(step["headers.remove"]),
                headers_add=tuple((name, value) for name, value in step["headers.add"]),
                unknown=step["unknown"],
                nullable=step["nullable"],
            )
            for number, step in enumerate(json.loads(stored)["steps"], start=1)
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a stored transform: {stored[:200]}") from error


def stored_transforms(rows: Iterable[Mapping[str, Any]]) -> dict[str, Chain]:
    """Returns what each topic was last transformed by, from *rows* of the table ``topics``.

    They are in the order of time. What nobody can read is a transform that Spark does not take.
    """
    found: dict[str, Chain] = {}
    for row in rows:
        stored = row.get("transform")
        try:
            found[row["topic"]] = chain_from(stored) if stored else ()
        except ValueError:
            found[row["topic"]] = (Transform(name="recorded-1", topics=(), value=str(stored)),)
    return found


def tried_transforms(rows: Iterable[Mapping[str, Any]], version: str) -> set[str]:
    """Returns the transforms that Spark *version* has taken, as `chain_text` writes each alone.

    *rows* are of the table ``topics``, to which a start adds what it has tried.
    """
    found = set[str]()
    for row in rows:
        stored = row.get("transform") or ""
        with suppress(ValueError):
            chain = chain_from(stored)
            if stored == chain_text(chain, version):
                found |= {chain_text((one,), version) for one in chain}
    return found


def is_same_chain(one: Chain, other: Chain) -> bool:
    """Returns whether two chains do the same with a record, by their texts."""
    return chain_text(one, "") == chain_text(other, "")


def _unlisted(name: str, listed: Collection[str]) -> str:
    other = closest(name, listed, 0.6)
    hint = f"; did you mean {PREFIX}{other}?" if other else ""
    return f"has no effect: {TRANSFORMS} does not list {name!r}{hint}"


def _transform(name: str, values: Mapping[str, Raw], *, hidden: bool) -> Transform:
    sql = {end: text(values.get(end, "")).strip() for end in _SQL}
    added = {end: text(raw).strip() for end, raw in values.items() if end.startswith(ADD)}
    return Transform(
        name=name,
        topics=items(values["topics"]),
        **sql,
        headers_remove=items(values.get("headers.remove", "")),
        headers_add=tuple((end.removeprefix(ADD), value) for end, value in added.items()),
        unknown=cast("Unknown", text(values.get("unknown", "fail")).strip().lower()),
        nullable=_flag(values, "nullable"),
        injective=_flag(values, "key.injective"),
        hidden=hidden,
    )


def _flag(values: Mapping[str, Raw], end: str) -> bool:
    return text(values.get(end, "false")).strip().lower() == "true"


def _problems(name: str, values: Mapping[str, Raw]) -> Iterator[tuple[str, str]]:
    start = f"{PREFIX}{name}"
    if not _NAME.fullmatch(name):
        yield TRANSFORMS, f"{name!r} is not a name of a transform; use A-Z a-z 0-9 _ -"
        return
    for end, raw in values.items():
        yield from ((f"{start}.{end}", problem) for problem in _value_problems(end, raw))
    if not items(values.get("topics", "")):
        yield f"{start}.topics", "missing; name the topics whose records it changes"
    has_effect = any(end in (*_SQL, "headers.remove") or end.startswith(ADD) for end in values)
    if not has_effect:
        yield (
            f"{start}.filter",
            f"missing; write at least one of {one_of([*_SQL, 'headers.remove'])}",
        )
    if "unknown" in values and "filter" not in values:
        yield f"{start}.unknown", f"has no effect without {start}.filter"
    if "key.injective" in values and "key" not in values:
        yield f"{start}.key.injective", f"has no effect without {start}.key"


def _value_problems(end: str, raw: Raw) -> Iterator[str]:
    value = text(raw).strip()
    if end in _SQL or end.startswith(ADD):
        yield from sql_problems(value)
        if end.startswith(ADD):
            yield from _header_problems([end.removeprefix(ADD)])
    elif end == "topics":
        for item in items(raw):
            yield from _topic_problems(item)
    elif end == "headers.remove":
        yield from _header_problems(items(raw))
    elif end in _CHOICES:
        if value.lower() not in _CHOICES[end]:
            yield f"{value!r} is invalid; write {one_of(_CHOICES[end])}"
    else:
        yield _unknown_end(end)


def _unknown_end(end: str) -> str:
    if end.partition(".")[0] in _ROUTING:
        return (
            "a transform cannot set the topic, partition, offset or timestamp of a copy: offsets "
            "are translated by them. Remove the key"
        )
    other = closest(end, _ENDS, 0.6)
    return f"unknown key; {f'did you mean {other}?' if other else f'write {one_of(_ENDS)}'}"


def _header_problems(names: Collection[str]) -> Iterator[str]:
    if not names or "" in names:
        yield "names no header; write headers.add.NAME, or headers.remove: [NAME]"
    if PROVENANCE in names:
        yield f"{PROVENANCE} is the mirror's own header, and ends loops; choose another name"


def _topic_problems(item: str) -> Iterator[str]:
    if problem := pattern_problem(item) or impossible(item, is_of_groups=False):
        yield problem
    elif _HEARTBEATS.fullmatch(item):
        yield f"{item!r} are heartbeats: {_TO_NOBODY}; remove it"
    elif _INTERNAL.fullmatch(item):
        yield f"{item!r} is an internal topic: {_TO_NOBODY}; remove it"
