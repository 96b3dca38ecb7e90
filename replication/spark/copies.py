"""What copies look like, as Catalyst expressions: the twin of `replication.offsets.copy_rule`.

Only these two modules decide how a record is changed; what transforms do is in
`replication.spark.copies`.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BinaryType, StringType, StructType

from replication.java import known_class
from replication.model import PROVENANCE, Chain, Transform
from replication.offsets.copy_rule import CopyRule
from replication.schemas.values import FRAME_BYTES, MAGIC, SCHEMA_HEADERS, Part

# Lets SQL that asks the same JSON several times parse it once.
#
# Catalyst does not. It evaluates what two branches have in common once only where both are
# evaluated for certain, which nothing within a CASE is, and gives each ``from_json`` whose field
# is taken a schema of that field alone, so that no two of them are the same any more. A column of
# its own below the expression, which several places take, stays one.

CALL: Final = "from_json"
_TOKENS: Final = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`|\w+|\s+|.""", re.DOTALL)
_UNSAFE: Final = re.compile(r"""->|--|/\*|\br['"]|failfast""", re.IGNORECASE)
"""A lambda, whose variables exist only within it; comments and raw strings, which are not read
here; and a mode that raises an error, which some CASE may keep from happening."""


def parsed_once(texts: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Returns *texts* with columns in the place of calls made twice, and the calls by column."""
    parts = [list(_parts(text)) for text in texts]
    found = Counter(part for text in parts for part, is_call in text if is_call)
    calls = [call for call, count in found.items() if count > 1]
    names = {call: f"_parsed_{number}" for number, call in enumerate(calls)}
    changed = [
        "".join(names[part] if part in names and is_call else part for part, is_call in text)
        for text in parts
    ]
    return changed, {name: call for call, name in names.items()}


def _parts(text: str) -> Iterator[tuple[str, bool]]:
    """Yields *text* in parts, and which of them are outermost calls that may be taken out."""
    if _UNSAFE.search(text):
        yield text, False
        return
    tokens, at = _TOKENS.findall(text), 0
    while at < len(tokens):
        is_method = at > 0 and tokens[at - 1] == "."
        end = _end_of_call(tokens, at) if tokens[at].lower() == CALL and not is_method else None
        yield "".join(tokens[at : end or at + 1]), end is not None
        at = end or at + 1


def _end_of_call(tokens: Sequence[str], at: int) -> int | None:
    """Returns where the call of the function at *at* ends; None if it is no call."""
    depth = 0
    for number, word in enumerate(tokens[at + 1 :], start=at + 1):
        if word in {"(", ")"}:
            depth += 1 if word == "(" else -1
            if depth == 0:
                return number + 1
        elif depth == 0 and not word.isspace():
            return None
    return None


# What a flow's transforms do with records, as Catalyst expressions. No I/O.
#
# `transformed` is for the query: a record that nobody can decide fails it, with the record's
# place. `kept` is for whoever compares or counts copies: such a record was never written. `tried`
# tells of each record what becomes of it.
#
# Each expression is evaluated within `replication.transform.Guarded`, which knows the record that
# it throws on and says nothing of what that holds. Without our jar Spark's own exceptions fail a
# query.

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
    """Returns what `transformed` does, without records that the transforms drop or fail on."""
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


_ALL: Final = 2**31 - 1
"""More bytes than a value has."""

NO_TIME = -1
"""Kafka's number for a record without a timestamp."""

LOG_APPEND_TIME = 1
"""Spark's number of a timestamp that the cluster has set."""


def _no_headers() -> Column:
    # its type is an object: a name is parsed by the parser of SQL, which takes a start's time
    pair = StructType().add("key", StringType()).add("value", BinaryType())
    return F.array().cast(ArrayType(pair))


def copied(records: DataFrame, rule: CopyRule) -> DataFrame:
    """Returns those of *records*, of Spark's Kafka source, that are copied, once transformed.

    For whoever counts or compares: a record on which a transform fails is not on the target.
    """
    return kept(_passing(records, rule), rule.chains)


def _passing(records: DataFrame, rule: CopyRule) -> DataFrame:
    """Returns those of *records* that `CopyRule.is_copied` is true of."""
    if rule.not_to is None:
        return records
    hop = _hop(rule.not_to)
    has_passed = F.exists("headers", lambda header: header == hop)
    return records.where(~F.coalesce(has_passed, F.lit(False)))


def copies_of(records: DataFrame, rule: CopyRule) -> DataFrame:
    """Returns the *records* that are copied, as `CopyRule.copy_of` makes them, at their old places.

    The columns: topic, partition, offset, key, value, headers, and ``time_ms``, or `NO_TIME`.
    Where a transform fails on a record, so does the query.
    """
    return _made(transformed(_passing(records, rule), rule.chains), rule)


def _made(records: DataFrame, rule: CopyRule, *more: str) -> DataFrame:
    """Adds to *records* what every copy has, and keeps the columns *more*."""
    headers = F.col("headers")
    if rule.mark is not None:
        headers = F.concat(F.coalesce(headers, _no_headers()), F.array(_hop(rule.mark)))
    place = "topic", "partition", "offset"
    columns = *place, "key", "value", headers.alias("headers"), _time_ms(rule).alias("time_ms")
    return records.select(*columns, *more)


def _written(records: DataFrame, rule: CopyRule) -> DataFrame:
    """Returns the copies of source *records* as they are on the target.

    Ids of schemas are replaced here, and in a query by the interceptor: a new id would need a new
    query.
    """
    copies = _made(copied(records, rule), rule)
    for part in {place for _, place, _ in rule.schemas.places()}:
        copies = copies.withColumns(_with_target_ids(part, rule))
    return copies


def printed_originals(records: DataFrame, rule: CopyRule) -> DataFrame:
    """Returns place, ``content``, ``time_ms`` of copied source *records*: `CopyRule.original`."""
    return _printed(_written(records, rule), F.col("time_ms"))


def digested_originals(records: DataFrame, rule: CopyRule) -> DataFrame:
    """Returns the same with ``content``, as hex digits, and ``size`` as `Copy` has them."""
    own = F.filter("headers", lambda header: header["key"] != PROVENANCE)
    content = F.sha2(_joined(own, _part), 256).alias("content")
    place = "topic", "partition", "offset"
    return _written(records, rule).select(*place, "time_ms", content, _size())


def next_originals(records: DataFrame, rule: CopyRule) -> DataFrame:
    """Returns the first of each partition's *records* that is copied, or that a transform fails on.

    The columns: topic, partition, offset, `FAILURE`, and ``size``, as `Copy.size`.
    """
    found = tried(_passing(records, rule), rule.chains).where(~F.col(DROPPED))
    made = _made(found, rule, FAILURE).withColumn("size", _size())
    first = F.min_by(F.struct("offset", FAILURE, "size"), "offset").alias("first")
    return made.groupBy("topic", "partition").agg(first).select("topic", "partition", "first.*")


def _size() -> Column:
    return F.octet_length(_joined(F.col("headers"), _or_empty)).alias("size")


def _joined(headers: Column, form: Callable[[Column], Column]) -> Column:
    """Joins key, value and *headers*, each in that *form*."""
    pairs = F.aggregate(
        F.coalesce(headers, _no_headers()),
        F.lit(b""),
        lambda parts, header: F.concat(
            parts, form(header["key"].cast(BinaryType())), form(header["value"])
        ),
    )
    return F.concat(form(F.col("key")), form(F.col("value")), pairs)


def _part(data: Column) -> Column:
    """Returns *data* as `Copy.content` hashes it: null is told from what is empty."""
    length = F.octet_length(data).cast(StringType()).cast(BinaryType())
    return F.coalesce(F.concat(length, F.lit(b":"), data), F.lit(b"-"))


def _or_empty(data: Column) -> Column:
    return F.coalesce(data, F.lit(b""))


def printed_copies(records: DataFrame, rule: CopyRule) -> DataFrame:
    """Returns the same of *records* of the target: `CopyRule.copy`."""
    is_own = F.col("timestampType") != LOG_APPEND_TIME
    return _printed(records, F.when(is_own, _time_ms(rule)))


def _time_ms(rule: CopyRule) -> Column:
    """Returns the time without a condition, which would cost the query CPU for each record."""
    millis = F.unix_millis("timestamp") if rule.timestamps == "preserve" else F.lit(NO_TIME)
    return F.greatest(millis, F.lit(NO_TIME).cast("bigint"))


def _printed(records: DataFrame, time_ms: Column) -> DataFrame:
    """Prints records as fingerprints, in which a record without a time has null as its time."""
    # xxhash64 skips nulls, so that null and empty would look alike without the flags
    nulls = [F.col(name).isNull() for name in ("key", "value")]
    own = F.filter("headers", lambda header: header["key"] != PROVENANCE)
    headers = F.to_json(F.coalesce(own, F.array()))  # Spark gives null for no headers
    content = F.xxhash64("key", "value", headers, *nulls).alias("content")
    place = "topic", "partition", "offset"
    own_ms = F.when(time_ms != NO_TIME, time_ms).alias("time_ms")
    return records.select(*place, content, own_ms, "key", nulls[1].alias("ends"))


def _with_target_ids(part: Part, rule: CopyRule) -> dict[str, Column]:
    """Returns a key or value, and the headers, with the ids of copies: `KnownIds.translated`."""
    data, headers = F.col(part), F.col("headers")
    is_own = F.transform(headers, lambda header: header["key"] == SCHEMA_HEADERS[part])
    last = F.size(headers) - F.array_position(F.reverse(is_own), F.lit(True))  # or behind the end
    is_named = F.coalesce(F.get(headers, last.cast("int"))["value"].isNotNull(), F.lit(False))
    changed = F.when(is_named, data).otherwise(_translated(data, part, rule))

    def header(one: Column, at: Column) -> Column:
        value = F.when(at == last, _translated(one["value"], part, rule)).otherwise(one["value"])
        return F.struct(one["key"].alias("key"), value.alias("value"))

    own = F.when(is_named & data.isNotNull(), F.transform(headers, header)).otherwise(headers)
    return {part: changed, "headers": own}


def _translated(data: Column, part: Part, rule: CopyRule) -> Column:
    changed = data
    is_framed = (F.length(data) >= FRAME_BYTES) & (F.substring(data, 1, 1) == F.lit(bytes([MAGIC])))
    number, rest = F.substring(data, 2, FRAME_BYTES - 1), F.substring(data, FRAME_BYTES + 1, _ALL)
    for topic, place, ids in rule.schemas.places():
        if place == part and ids:
            pairs = (
                F.lit(each)
                for source, target in ids.items()
                for each in (f"{source:08X}", target.to_bytes(FRAME_BYTES - 1, "big"))
            )
            own = F.coalesce(F.element_at(F.create_map(*pairs), F.hex(number)), number)
            framed = F.concat(F.lit(bytes([MAGIC])), own, rest)
            changed = F.when((F.col("topic") == topic) & is_framed, framed).otherwise(changed)
    return changed


def _hop(alias: str) -> Column:
    value = F.lit(alias.encode())
    return F.struct(F.lit(PROVENANCE).alias("key"), value.alias("value"))
