"""What a flow's transforms do with records, as Catalyst expressions. No I/O.

`transformed` is for the query: a record that nobody can decide fails it, with the record's place.
`kept` is for whoever compares or counts copies: such a record was never written. `tried` tells of
each record what becomes of it.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType

from replication.model import Chain, TopicPartition, Transform
from replication.spark.parsed_once import parsed_once

HEADERS: Final = "array<struct<key:string,value:binary>>"
"""The type of ``headers``, as an object: a name would be read by the parser of SQL."""

DROPPED: Final = "dropped"
FAILURE: Final = "failure"

_TYPES: Final = {"key": "binary", "value": "binary", "headers": HEADERS}
_FAILED: Final = re.compile(
    r"the transform (\S+) fails: its (\w+) \w+ NULL for (\S+)-(\d+) offset (\d+)"
)


@dataclass(frozen=True, slots=True)
class FailedRecord:
    """A record that a transform fails on."""

    offset: int
    text: str


def transformed(records: DataFrame, chains: Mapping[str, Chain]) -> DataFrame:
    """Returns *records*, of Spark's Kafka source, as the transforms leave them.

    Those of topics without a chain stay as they are; without chains nothing is added to the plan.

    Args:
        records: With all columns of the source.
        chains: By topic of the source.
    """
    for chain, topics in _grouped(chains):
        for step in chain:
            records = _applied(records, step, _is_of(topics))
    return records


def kept(records: DataFrame, chains: Mapping[str, Chain]) -> DataFrame:
    """Returns the same of those records that the transforms neither drop nor fail on."""
    if not any(chains.values()):
        return records
    is_kept = F.col(FAILURE).isNull() & ~F.col(DROPPED)
    return tried(records, chains).where(is_kept).drop(DROPPED, FAILURE)


def tried(records: DataFrame, chains: Mapping[str, Chain]) -> DataFrame:
    """Returns all *records*, as far as the transforms get with them, and what becomes of them.

    Beside the columns of the source there are `DROPPED`, a boolean, and `FAILURE`: why a record
    cannot be transformed, or null.
    """
    records = records.withColumns({DROPPED: F.lit(False), FAILURE: F.lit(None).cast(StringType())})
    for chain, topics in _grouped(chains):
        for step in chain:
            records = _tried(records, step, _is_of(topics))
    return records


def digested_trial(records: DataFrame, chains: Mapping[str, Chain]) -> DataFrame:
    """Returns a hash of what becomes of each of *records*, as ``digest``, at its place."""
    found = tried(records, chains)
    parts = F.to_json(F.struct("key", "value", "headers", DROPPED, FAILURE))
    return found.select("topic", "partition", "offset", F.sha2(parts, 256).alias("digest"))


def failed_records(text: str) -> dict[TopicPartition, FailedRecord]:
    """Returns the records that the error *text* of a query with `transformed` names."""
    return {
        TopicPartition(found[3], int(found[4])): FailedRecord(int(found[5]), found[0])
        for found in _FAILED.finditer(text)
    }


def _grouped(chains: Mapping[str, Chain]) -> Iterator[tuple[Chain, Collection[str]]]:
    """Yields each chain once, with its topics."""
    topics: dict[Chain, list[str]] = {}
    for topic, chain in sorted(chains.items()):
        topics.setdefault(chain, []).append(topic)
    yield from topics.items()


def _is_of(topics: Collection[str]) -> Column:
    return F.col("topic").isin(list(topics))


def _applied(records: DataFrame, step: Transform, is_of: Column) -> DataFrame:
    """Applies *step* to those *records* that are of its topics."""
    if step.filter:
        unknown = _raised(step, "filter is") if step.unknown == "fail" else _unknown(step)
        passes = F.coalesce(F.expr(step.filter), unknown)
        records = records.where(F.when(is_of, passes).otherwise(F.lit(True)))
    step, parsed = _parsing_once(step)
    records = records.withColumns(
        {name: F.when(is_of, F.expr(call)) for name, call in parsed.items()}
    )
    wanted = {part: _guarded(step, part, to) for part, to in _wanted(step).items()}
    if step.headers_remove or step.headers_add:
        wanted["headers"] = _edited(step, wanted.get("headers", F.col("headers")), _added(step))
    changed = {part: F.when(is_of, to).otherwise(F.col(part)) for part, to in wanted.items()}
    return records.withColumns(changed).drop(*parsed) if changed else records


def _parsing_once(step: Transform) -> tuple[Transform, dict[str, str]]:
    """Returns *step* with columns in the place of JSON that it would parse again, and these."""
    names = [name for name, _ in step.headers_add]
    added = [text for _, text in step.headers_add]
    (key, value, headers, *added), parsed = parsed_once(
        [step.key, step.value, step.headers, *added]
    )
    pairs = tuple(zip(names, added, strict=True))
    return replace(step, key=key, value=value, headers=headers, headers_add=pairs), parsed


def _tried(records: DataFrame, step: Transform, is_of: Column) -> DataFrame:
    """Applies *step* as `_applied` does, but notes what that drops or fails on."""
    is_live = is_of & F.col(FAILURE).isNull() & ~F.col(DROPPED)
    if step.filter:
        records = records.withColumn("_passes", F.when(is_live, F.expr(step.filter)))
        is_unknown = is_live & F.col("_passes").isNull()
        fails = F.lit(step.unknown == "fail")
        failure = F.when(is_unknown & fails, _said(step, "filter is"))
        drops = is_live & ~F.coalesce(F.col("_passes"), fails | _unknown(step))
        noted = {FAILURE: F.coalesce(F.col(FAILURE), failure), DROPPED: F.col(DROPPED) | drops}
        records = records.withColumns(noted)
    wanted = _wanted(step)
    made = {f"_{part}": F.when(is_live, to) for part, to in wanted.items()}
    records = records.withColumns({**made, "_added": F.when(is_live, _added(step))})
    failures = [
        F.when(
            is_live & F.col(part).isNotNull() & F.col(f"_{part}").isNull(),
            _said(step, f"{part} becomes"),
        )
        for part in wanted
        if not step.nullable
    ]
    records = records.withColumn(FAILURE, F.coalesce(F.col(FAILURE), *failures))
    made = {part: F.col(f"_{part}") for part in wanted}
    if step.headers_remove or step.headers_add:
        made["headers"] = _edited(step, made.get("headers", F.col("headers")), F.col("_added"))
    changed = {part: F.when(is_live, to).otherwise(F.col(part)) for part, to in made.items()}
    columns = ("_passes", "_added", *(f"_{part}" for part in wanted))
    return records.withColumns(changed).drop(*columns)


def _wanted(step: Transform) -> dict[str, Column]:
    """Returns what the expressions of *step* make of key, value and headers, by column."""
    parts = {"key": step.key, "value": step.value, "headers": step.headers}
    return {part: F.expr(text).cast(_TYPES[part]) for part, text in parts.items() if text}


def _added(step: Transform) -> Column:
    """Returns the headers that *step* adds."""
    added = [
        F.struct(F.lit(name).alias("key"), F.expr(text).alias("value"))
        for name, text in step.headers_add
    ]
    return F.array(*added).cast(HEADERS)


def _edited(step: Transform, headers: Column, added: Column) -> Column:
    """Returns *headers* without those that *step* removes, and with those *added*."""
    if step.headers_remove:
        names = list(step.headers_remove)
        headers = F.filter(headers, lambda header: ~header["key"].isin(names))
    if not step.headers_add:
        return headers
    return F.concat(F.coalesce(headers, F.array().cast(HEADERS)), added)


def _guarded(step: Transform, part: str, wanted: Column) -> Column:
    """Returns *wanted*; fails where it is NULL, although *part* of the record was not."""
    if step.nullable:
        return wanted
    return F.coalesce(wanted, F.when(F.col(part).isNotNull(), _raised(step, f"{part} becomes")))


def _unknown(step: Transform) -> Column:
    return F.lit(step.unknown == "keep")


def _raised(step: Transform, what: str) -> Column:
    return F.raise_error(_said(step, what))


def _said(step: Transform, what: str) -> Column:
    """Returns the text of a failure, as `_FAILED` reads it."""
    start = F.lit(f"the transform {step.name} fails: its {what} NULL for ")
    place = (F.col("topic"), F.lit("-"), F.col("partition").cast(StringType()))
    return F.concat(start, *place, F.lit(" offset "), F.col("offset").cast(StringType()))
