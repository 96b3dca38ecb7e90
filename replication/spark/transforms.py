"""What a flow's transforms do with records, as Catalyst expressions. No I/O.

`transformed` is for the query: a record that nobody can decide fails it, with the record's place.
`kept` is for whoever compares or counts copies: such a record was never written. `tried` tells of
each record what becomes of it.

Each expression is evaluated within `replication.transform.Guarded`, which knows the record that it
throws on and says nothing of what that holds. Without our jar Spark's own exceptions fail a query.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType

from replication.java import known_class
from replication.model import Chain, Transform
from replication.spark.parsed_once import parsed_once

HEADERS: Final = "array<struct<key:string,value:binary>>"
"""The type of ``headers``. The parser of SQL reads it, which has read the expressions by then."""

DROPPED: Final = "dropped"
FAILURE: Final = "failure"

_TYPES: Final = {"key": "binary", "value": "binary", "headers": HEADERS}
_GUARDED: Final = "replication.transform.Guarded"
_THROWING: Final = "replication_guarded"
_NOTING: Final = "replication_noted"


def transformed(records: DataFrame, chains: Mapping[str, Chain]) -> DataFrame:
    """Returns *records*, of Spark's Kafka source, as the transforms leave them.

    Those of topics without a chain stay as they are; without chains nothing is added to the plan.

    Args:
        records: With all columns of the source.
        chains: By topic of the source.
    """
    is_guarded = any(chains.values()) and _is_guarded(records)
    for chain, topics in _grouped(chains):
        for step in chain:
            records = _applied(records, step, _is_of(topics), is_guarded=is_guarded)
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
    is_guarded = _is_guarded(records)
    for chain, topics in _grouped(chains):
        for step in chain:
            records = _tried(records, step, _is_of(topics), is_guarded=is_guarded)
    return records


def digested_trial(records: DataFrame, chains: Mapping[str, Chain]) -> DataFrame:
    """Returns a hash of what becomes of each of *records*, as ``digest``, at its place."""
    found = tried(records, chains)
    parts = F.to_json(F.struct("key", "value", "headers", DROPPED, FAILURE))
    return found.select("topic", "partition", "offset", F.sha2(parts, 256).alias("digest"))


def _is_guarded(records: DataFrame) -> bool:
    """Gives the session of *records* the functions that guard expressions; false without a jar."""
    session = records.sparkSession
    guarded = known_class(session._jvm, _GUARDED)  # noqa: SLF001 - py4j's own view
    if guarded is not None:
        guarded.register(session._jsparkSession, _THROWING, _NOTING)  # noqa: SLF001
    return guarded is not None


def _grouped(chains: Mapping[str, Chain]) -> Iterator[tuple[Chain, Collection[str]]]:
    """Yields each chain once, with its topics."""
    topics: dict[Chain, list[str]] = {}
    for topic, chain in sorted(chains.items()):
        topics.setdefault(chain, []).append(topic)
    yield from topics.items()


def _is_of(topics: Collection[str]) -> Column:
    return F.col("topic").isin(list(topics))


def _applied(records: DataFrame, step: Transform, is_of: Column, *, is_guarded: bool) -> DataFrame:
    """Applies *step* to those *records* that are of its topics."""

    def guarded(part: str, made: Column, *, is_failure: Column) -> Column:
        if is_guarded:
            return F.call_function(_THROWING, *_arguments(step, part, made, is_failure))
        return F.coalesce(made, F.when(is_failure, F.raise_error(_said(step, part))))

    if step.filter:
        passes = guarded("filter", F.expr(step.filter), is_failure=F.lit(step.unknown == "fail"))
        passes = F.coalesce(passes, F.lit(step.unknown == "keep"))
        records = records.where(F.when(is_of, passes).otherwise(F.lit(True)))
    step, parsed = _parsing_once(step)
    allowed = F.lit(False)
    records = records.withColumns(
        {
            name: F.when(is_of, guarded("JSON", F.expr(call), is_failure=allowed))
            for name, call in parsed.items()
        }
    )
    wanted = {
        part: guarded(part, to, is_failure=_is_failure(step, part))
        for part, to in _wanted(step).items()
    }
    if step.headers_remove or step.headers_add:
        added = guarded("headers", _added(step), is_failure=allowed)
        wanted["headers"] = _edited(step, wanted.get("headers", F.col("headers")), added)
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


def _tried(records: DataFrame, step: Transform, is_of: Column, *, is_guarded: bool) -> DataFrame:
    """Applies *step* as `_applied` does, but notes what that drops or fails on."""
    is_live = is_of & F.col(FAILURE).isNull() & ~F.col(DROPPED)

    def noted(part: str, made: Column, *, is_failure: Column) -> Column:
        if is_guarded:
            found = F.call_function(_NOTING, *_arguments(step, part, made, is_failure))
        else:
            failure = F.when(made.isNull() & is_failure, _said(step, part))
            found = F.struct(made.alias("made"), failure.alias("failure"))
        return F.when(is_live, found)

    if step.filter:
        is_failure = F.lit(step.unknown == "fail")
        passes = noted("filter", F.expr(step.filter), is_failure=is_failure)
        records = records.withColumn("_passes", passes)
        failure = F.col("_passes.failure")
        is_passed = F.coalesce(F.col("_passes.made"), F.lit(step.unknown == "keep"))
        drops = is_live & failure.isNull() & ~is_passed
        noting = {FAILURE: F.coalesce(F.col(FAILURE), failure), DROPPED: F.col(DROPPED) | drops}
        records = records.withColumns(noting)
    wanted = {
        f"_{part}": noted(part, to, is_failure=_is_failure(step, part))
        for part, to in _wanted(step).items()
    }
    if step.headers_add:
        wanted["_added"] = noted("headers", _added(step), is_failure=F.lit(False))
    records = records.withColumns(wanted)
    failures = [F.col(f"{name}.failure") for name in wanted]
    records = records.withColumn(FAILURE, F.coalesce(F.col(FAILURE), *failures))
    made = {part: F.col(f"_{part}.made") for part in _TYPES if f"_{part}" in wanted}
    if step.headers_remove or step.headers_add:
        headers, added = made.get("headers", F.col("headers")), F.col("_added.made")
        made["headers"] = _edited(step, headers, added)
    changed = {part: F.when(is_live, to).otherwise(F.col(part)) for part, to in made.items()}
    return records.withColumns(changed).drop("_passes", *wanted)


def _arguments(step: Transform, part: str, made: Column, is_failure: Column) -> list[Column]:
    """Returns what `replication.transform.Guarded` has to know."""
    place = F.col("topic"), F.col("partition"), F.col("offset")
    return [made, *place, is_failure, F.lit(step.name), F.lit(part)]


def _is_failure(step: Transform, part: str) -> Column:
    """Returns whether it is a failure that *part* of a record becomes NULL."""
    return F.lit(False) if step.nullable else F.col(part).isNotNull()


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


def _said(step: Transform, part: str) -> Column:
    """Returns the text of a failure, as `replication.transform.TransformFailure` has it."""
    what = "filter is" if part == "filter" else f"{part} becomes"
    start = F.lit(f"the transform {step.name} fails: its {what} NULL for ")
    place = (F.col("topic"), F.lit("-"), F.col("partition").cast(StringType()))
    return F.concat(start, *place, F.lit(" offset "), F.col("offset").cast(StringType()))
