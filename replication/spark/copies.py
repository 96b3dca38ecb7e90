"""What copies look like, as Catalyst expressions: the twin of `replication.offsets.copy_rule`.

Only these two modules decide how a record is changed; what transforms do is in
`replication.spark.transforms`.
"""

from collections.abc import Callable
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BinaryType, StringType, StructType

from replication.model import PROVENANCE
from replication.offsets.copy_rule import CopyRule
from replication.schemas.framing import FRAME_BYTES, MAGIC, SCHEMA_HEADERS
from replication.schemas.values import Part
from replication.spark.transforms import DROPPED, FAILURE, kept, transformed, tried

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
