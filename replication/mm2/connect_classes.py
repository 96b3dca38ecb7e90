"""The classes of Kafka Connect's transforms: their names, and what to write instead of them. Pure.

MirrorMaker 2 hands its records to a transform as bytes, so those of Kafka that look into a value
fail there ("Only Struct objects supported"). What their authors meant can be written as SQL.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final

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


def _mask(field: str, _: str) -> str:
    return f"""regexp_replace({_TEXT}, '"{field}":"[^"]*"', '"{field}":"***"')"""


def _remove(field: str, _: str) -> str:
    return f"""regexp_replace({_TEXT}, '"{field}":"[^"]*",|,?"{field}":"[^"]*"', '')"""


def _insert(field: str, value: str) -> str:
    return f"""regexp_replace({_TEXT}, '}}$', ',"{field}":"{value}"}}')"""


def _hoist(field: str, _: str) -> str:
    return f"""concat('{{"{field}":', {_TEXT}, '}}')"""


_SQL: Final[Mapping[str, tuple[str, Callable[[str, str], str]]]] = {
    "MaskField": ("value", _mask),
    "ReplaceField": ("value", _remove),
    "InsertField": ("value", _insert),
    "HoistField": ("value", _hoist),
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
