"""Kafka Connect's chains of transforms and predicates, as SQL that does the same. Pure.

MirrorMaker 2 runs such a chain on every record, after the remote topic's name was given and before
the converters: key, value and headers are bytes, and a converter of bytes follows. So the only
transforms of Kafka that work on its records are those that drop a record or change its headers.
They have an exact counterpart here. All others are refused, with the SQL to write instead.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from replication.mm2.filters import pattern_problem

# The classes of Kafka Connect's transforms: their names, and what to write instead of them.
#
# MirrorMaker 2 hands its records to a transform as bytes, so those of Kafka that look into a value
# fail there ("Only Struct objects supported"). What their authors meant can be written as SQL.

_KAFKA: Final = re.compile(
    r"org\.apache\.kafka\.connect\.(?:transforms\.(?:predicates\.)?|converters\.|storage\.|json\.)"
)
_OF_TOPICS: Final = (
    "changes a record's topic, which nothing but replication.policy.class does here; to keep "
    "topics' names write IdentityReplicationPolicy there"
)
_TEXT: Final = "cast(value AS string)"
_FIELDS: Final = ("fields", "field", "exclude", "static.field", "blacklist", "include", "spec")


def _get(field: str, _: str) -> str:
    return f"get_json_object({_TEXT}, '$.{field}')"


_SQL: Final[Mapping[str, tuple[str, Callable[[str, str], str]]]] = {
    "MaskField": (
        "value",
        lambda field, _: f"""regexp_replace({_TEXT}, '"{field}":"[^"]*"', '"{field}":"***"')""",
    ),
    "ReplaceField": (
        "value",
        lambda field, _: (
            f"""regexp_replace({_TEXT}, '"{field}":"[^"]*",|,?"{field}":"[^"]*"', '')"""
        ),
    ),
    "InsertField": (
        "value",
        lambda field, value: f"""regexp_replace({_TEXT}, '}}$', ',"{field}":"{value}"}}')""",
    ),
    "HoistField": ("value", lambda field, _: f"""concat('{{"{field}":', {_TEXT}, '}}')"""),
    "ExtractField": ("value", _get),
    "Cast": ("value", _get),
    "Flatten": ("value", _get),
    "TimestampConverter": ("value", _get),
    "ValueToKey": ("key", _get),
    "HeaderFrom": ("headers.add.NAME", _get),
}
"""Class of Kafka -> our key, and SQL for a field of JSON and the text that it gets."""


def simple_name(given: str) -> str:
    """Returns the name of a class of Kafka's own without its package; any other one as it is."""
    return _KAFKA.sub("", given.strip(), count=1)


def advice(given: str, own: str, settings: Mapping[str, str]) -> str:
    """Returns why the transform of class *given* is refused, and what to write.

    Args:
        given: The class, as the file has it.
        own: This mirror's key for the transform.
        settings: The settings of the transform.
    """
    name, _, part = simple_name(given).partition("$")
    if name.endswith("Router"):
        return f"{given!r} {_OF_TOPICS}"
    if name == "SetSchemaMetadata":
        return f"{given!r} fails on MirrorMaker 2's records, and changes no byte; remove it"
    if name not in _SQL:
        return (
            f"{given!r} has no counterpart; write what it does as SQL of key, value, headers, "
            f"topic and timestamp, as {own}.filter, {own}.key, {own}.value or {own}.headers, for "
            f"""example {own}.filter: "get_json_object({_TEXT}, '$.region') = 'eu'\""""
        )
    key, sql = _SQL[name]
    named = next((settings[each] for each in _FIELDS if settings.get(each)), "FIELD")
    field = re.split("[,:]", named)[0].strip()
    text = f"cast({sql(field, settings.get('static.value', 'VALUE'))} AS binary)"
    if part == "Key" and key == "value":
        key, text = "key", text.replace(_TEXT, "cast(key AS string)")
    return (
        f"{given!r} fails on MirrorMaker 2's records, which are bytes; write SQL, for JSON for "
        f"example {own}.{key}: {yaml_text(text)}"
    )


def yaml_text(text: str) -> str:
    """Returns *text* as YAML in single quotes, in which only these are written twice."""
    return "'" + text.replace("'", "''") + "'"


CHAIN: Final = "transforms"
PREDICATES: Final = "predicates"
OWN: Final = "replication.transforms"
CONVERTER: Final = "header.converter"

_BYTES: Final = "ByteArrayConverter"
_TEXTS: Final = "SimpleHeaderConverter"
_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_WHOLE: Final = re.compile(r"0|-?[1-9][0-9]{0,17}")
_TIME: Final = re.compile(r"(?:[0-9]{4}-[0-9]{2}-[0-9]{2}|[0-9]{2}:[0-9]{2}:[0-9]{2}).*")
_HEADER: Final = re.compile(r"[A-Za-z0-9._-]+")
"""Names of headers that may be part of a key of the file."""

Setting = str | tuple[str, ...]


class _Refused(ValueError):  # noqa: N818 - it never leaves this module
    """A chain that has no counterpart; ``key`` is the one to blame."""

    def __init__(self, key: str, text: str) -> None:
        super().__init__(text)
        self.key = key


@dataclass(slots=True)
class Counterpart:
    """What a chain is here.

    Args:
        settings: This mirror's keys, without the flow's name -> value.
        origins: Each of these keys -> the key of Connect that it comes from.
        problems: Key of Connect -> why it is refused, and what to write.
        warnings: Key of Connect -> how the copies differ from those of MirrorMaker 2.
    """

    settings: dict[str, Setting] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)
    warnings: dict[str, str] = field(default_factory=dict)

    def put(self, key: str, value: Setting, origin: str) -> None:
        self.settings[key] = value
        self.origins[key] = origin


def counterpart(chain: Mapping[str, str], remote_topic: str | None) -> Counterpart:
    """Returns what *chain* is here.

    Args:
        chain: The keys of a flow that belong to its chain, without the flow's name, and
            ``header.converter`` where it is given.
        remote_topic: SQL for the name that a record's topic has on the target; None if only a class
            of the user's knows it.
    """
    found = Counterpart()
    names, predicates = (_names(chain, key, found) for key in (CHAIN, PREDICATES))
    conditions = _Conditions(chain, predicates, remote_topic)
    taken = tuple(name for name in names if _Transform(name, chain, found).is_taken(conditions))
    if taken:
        found.put(OWN, taken, CHAIN)
    return found


def belongs(name: str) -> bool:
    """Returns whether the key *name* is part of a chain."""
    return name.partition(".")[0] in (CHAIN, PREDICATES)


def text_literal(text: str) -> str:
    """Returns *text* as a literal of Spark SQL."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _items(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]


def _names(chain: Mapping[str, str], key: str, found: Counterpart) -> tuple[str, ...]:
    names = _items(chain.get(key, ""))
    if double := next((name for name in names if names.count(name) > 1), None):
        found.problems[key] = f"lists {double!r} twice, which Kafka Connect refuses; remove one"
    return tuple(dict.fromkeys(names))


def _required(chain: Mapping[str, str], key: str, what: str) -> str:
    if not (value := chain.get(key, "").strip()):
        raise _Refused(key, f"is missing or empty; write {what}")
    return value


@dataclass(frozen=True, slots=True)
class _Transform:
    name: str
    chain: Mapping[str, str]
    found: Counterpart

    def is_taken(self, conditions: "_Conditions") -> bool:
        try:
            self.add(conditions)
        except _Refused as error:
            self.found.problems[error.key] = str(error)
            return False
        return True

    def add(self, conditions: "_Conditions") -> None:
        key = self.key("type")
        given = _required(self.chain, key, "the class of the transform")
        match simple_name(given):
            case "Filter":
                kept = self.kept(conditions.of(self.name))
            case "DropHeaders":
                kept = self.without_headers(conditions.of(self.name))
            case "InsertHeader":
                kept = self.with_header(conditions.of(self.name))
            case _:
                prefix = self.key("")
                settings = {each.removeprefix(prefix): self.chain[each] for each in self.chain}
                raise _Refused(key, advice(given, self.own(""), settings))
        for what, value in {"topics": (".*",), **kept}.items():
            self.found.put(self.own(f".{what}"), value, key)

    def key(self, name: str) -> str:
        return f"{CHAIN}.{self.name}.{name}"

    def own(self, what: str) -> str:
        return f"{OWN}.{self.name}{what}"

    def kept(self, condition: str | None) -> dict[str, Setting]:
        if condition is None:
            self.found.warnings[self.key("type")] = (
                "has no predicate, so that every record is dropped, as in MirrorMaker 2"
            )
        return {"filter": "false" if condition is None else f"NOT ({condition})"}

    def without_headers(self, condition: str | None) -> dict[str, Setting]:
        """Returns what removes all headers of some names."""
        key = self.key("headers")
        given = _required(self.chain, key, "the headers' names, separated by commas")
        names = tuple(dict.fromkeys(_items(given)))
        if not names:
            raise _Refused(key, f"{given!r} names no header; write the names")
        if condition is None:
            return {"headers.remove": names}
        others = f"filter(headers, h -> h.key NOT IN ({', '.join(map(text_literal, names))}))"
        return {"headers": f"if({condition}, {others}, headers)"}

    def with_header(self, condition: str | None) -> dict[str, Setting]:
        """Returns what adds a header behind all others, even if there is one of that name."""
        header = _required(self.chain, self.key("header"), "the name of the header")
        value = self.header_value()
        if condition is None and _HEADER.fullmatch(header):
            return {f"headers.add.{header}": value}
        added = f"array(struct({text_literal(header)} AS key, {value} AS value))"
        more = f"if(headers IS NULL, {added}, concat(headers, {added}))"
        return {"headers": more if condition is None else f"if({condition}, {more}, headers)"}

    def header_value(self) -> str:
        key = self.key("value.literal")
        if (literal := self.chain.get(key, "").strip()) == "null":
            return "cast(NULL AS binary)"
        if key not in self.chain:
            raise _Refused(key, "is missing; write the value of the header")
        sql = f"cast({text_literal(literal)} AS binary)"
        instead = f"write what shall arrive as {self.own('.headers.add.NAME')}: {yaml_text(sql)}"
        converter = simple_name(self.chain.get(CONVERTER, _BYTES))
        if converter not in (_BYTES, _TEXTS):
            raise _Refused(key, f"may be written as other bytes by {converter}; {instead}")
        if _is_parsed(literal):
            raise _Refused(
                key,
                f"{literal!r} is a number, a time or a collection for Kafka Connect, which may "
                f"write it differently, such as 7 for 007; {instead}",
            )
        self.found.warnings[key] = _AS_TEXT[converter]
        return sql


_AS_TEXT: Final = {
    _BYTES: "is written as its text in UTF-8; MirrorMaker 2 itself fails here, since its "
    "ByteArrayConverter takes no text",
    _TEXTS: "is written as its text in UTF-8, as by SimpleHeaderConverter; the records' own "
    "headers stay as they are, of which that converter makes base64",
}


def _is_parsed(literal: str) -> bool:
    """Returns whether Connect takes *literal* for more than a text, and may write it anew."""
    if _NUMBER.fullmatch(literal):
        return not _WHOLE.fullmatch(literal)
    return (
        bool(_TIME.fullmatch(literal))
        or bool(set(literal[:1]) & set("[{"))
        or (bool(set(literal) & set('"\\')))
    )


@dataclass(frozen=True, slots=True)
class _Conditions:
    """When the transforms of a chain apply, as SQL that is never NULL."""

    chain: Mapping[str, str]
    predicates: tuple[str, ...]
    remote_topic: str | None

    def of(self, transform: str) -> str | None:
        key, negate = (f"{CHAIN}.{transform}.{each}" for each in ("predicate", "negate"))
        negated = self.chain.get(negate, "false").strip().lower()
        if negated not in ("true", "false"):
            raise _Refused(negate, f"{negated!r} is neither true nor false; write one of them")
        name = self.chain.get(key, "").strip()
        if not name and negate in self.chain:
            raise _Refused(negate, f"negates no predicate; write {key}, or remove it")
        if not name:
            return None
        if name not in self.predicates:
            raise _Refused(key, f"names {name!r}, which {PREDICATES} does not list; add it there")
        tested = self.predicate(f"{PREDICATES}.{name}.")
        return f"NOT ({tested})" if negated == "true" else tested

    def predicate(self, prefix: str) -> str:
        given = _required(self.chain, f"{prefix}type", "the class of the predicate")
        match simple_name(given):
            case "RecordIsTombstone":
                return "value IS NULL"
            case "HasHeaderKey":
                header = _required(self.chain, f"{prefix}name", "the name of the header")
                return f"coalesce(exists(headers, h -> h.key = {text_literal(header)}), false)"
            case "TopicNameMatches":
                return self.topic_matches(f"{prefix}pattern")
        raise _Refused(
            f"{prefix}type",
            f"{given!r} has no counterpart, unlike HasHeaderKey, RecordIsTombstone and "
            "TopicNameMatches; write the condition as SQL of key, value, headers, topic and "
            f"timestamp, for example {OWN}.NAME.filter: "
            "\"get_json_object(cast(value AS string), '$.region') = 'eu'\"",
        )

    def topic_matches(self, key: str) -> str:
        pattern = _required(self.chain, key, "a regular expression of the remote topic's name")
        if problem := pattern_problem(pattern):
            raise _Refused(key, problem)
        if self.remote_topic is None:
            raise _Refused(
                key,
                "matches the remote topic's name, which only your replication.policy.class knows; "
                f"write the topics' names on the source as {OWN}.NAME.topics",
            )
        return f"{self.remote_topic} RLIKE {text_literal(f'^(?:{pattern})$')}"
