"""What a copy looks like: the pure rule and its Spark twin say the same of any record."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, timezone
from itertools import product

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, Row, SparkSession

from replication.kafka.api import KafkaRecord
from replication.model import PROVENANCE, Timestamps
from replication.offsets.copy_rule import Copy, CopyRule, Fingerprint
from replication.schemas.values import KnownIds
from replication.spark.copies import (
    LOG_APPEND_TIME,
    NO_TIME,
    copies_of,
    printed_copies,
    printed_originals,
)
from replication.spark.progress import SOURCE_SCHEMA

pytestmark = pytest.mark.spark

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
NOW_MS = 1_764_000_000_000

HEADERS = (
    (),
    (("h", None),),
    (("h", b""),),
    ((PROVENANCE, b"A"), ("h", b"")),
    (("h", b""), (PROVENANCE, b"B")),
    ((PROVENANCE, None), (PROVENANCE, b"B2")),
)
ALIKE = [
    KafkaRecord(0, *content)
    for content in product((-1, NOW_MS), (None, b""), (None, b"", b"a"), HEADERS, (False, True))
]
"""Records that differ in as little as possible, and each twice but for its time."""

DATA = st.none() | st.binary(max_size=3)
ANY = st.builds(
    KafkaRecord,
    st.just(0),
    st.sampled_from([-1, 0, NOW_MS]),
    DATA,
    DATA,
    st.lists(st.tuples(st.sampled_from(["h", "ä", "", PROVENANCE]), DATA), max_size=3).map(tuple),
    st.booleans(),
)
TIMESTAMPS: tuple[Timestamps, ...] = ("preserve", "broker")
RULES = [CopyRule(*fields) for fields in product(TIMESTAMPS, (None, "A"), (None, "B"))]


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_the_rule_and_its_twin_agree_on_records_that_are_alike(
    spark: SparkSession, rule: CopyRule
) -> None:
    assert_agreed(spark, rule, ALIKE)


@given(rule=st.sampled_from(RULES), records=st.lists(ANY, min_size=1, max_size=60))
@settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_the_rule_and_its_twin_agree_on_any_record(
    spark: SparkSession, rule: CopyRule, records: list[KafkaRecord]
) -> None:
    assert_agreed(spark, rule, records)


def test_the_rule_and_its_twin_agree_on_ids_of_schemas(spark: SparkSession) -> None:
    known = KnownIds()
    known.add("t", "value", 7, 1000)
    known.add("t", "value", 2**32 - 1, 8)
    known.add("t", "key", 7, 2)
    known.add("u", "value", 8, 7)
    ids = (0, 2, 7, 8, 1000, 2**32 - 1)
    framed = [b"\0" + number.to_bytes(4, "big") + rest for number in ids for rest in (b"", b"x")]
    parts = [None, b"", b"\0\0\0\7", b"\1\0\0\0\7x", *framed]
    records = [KafkaRecord(0, NOW_MS, key, value, ()) for key in parts[::3] for value in parts]
    named = [b"\0\0\0\0\7", b"\0\0\0\0\7index", b"\0\0\0\0\1", b"\1" + bytes(16), b"", None]
    records += [
        KafkaRecord(0, NOW_MS, framed[4], value, ((name, first), ("h", b""), (name, last)))
        for name in ("__key_schema_id", "__value_schema_id")
        for first in named[::2]
        for last in named
        for value in (None, framed[4])
    ]
    frame, rule = frame_of(spark, records), CopyRule(schemas=known)

    originals = printed(printed_originals(frame, rule))
    assert originals.keys() == set(range(len(records)))
    assert_equal_twins(rule, records, originals, printed(printed_copies(frame, rule)))


def assert_agreed(spark: SparkSession, rule: CopyRule, records: Sequence[KafkaRecord]) -> None:
    """Compares copies, and for each pair of records whether one is taken for the other's copy."""
    frame = frame_of(spark, records)
    copied = {at: record for at, record in enumerate(records) if rule.is_copied(record)}

    copies = {row.offset: copy_in(row) for row in copies_of(frame, rule).collect()}
    originals = printed(printed_originals(frame, rule))
    targets = printed(printed_copies(frame, rule))

    assert copies == {at: rule.copy_of(record) for at, record in copied.items()}
    assert originals.keys() == copied.keys()
    pure = [rule.copy(record) for record in records]
    assert [target.time_ms for _, target in sorted(targets.items())] == [
        copy.time_ms for copy in pure
    ]
    assert_equal_twins(rule, records, originals, targets)


def assert_equal_twins(
    rule: CopyRule,
    records: Sequence[KafkaRecord],
    originals: Mapping[int, Fingerprint],
    targets: Mapping[int, Fingerprint],
) -> None:
    """Compares for each pair of records whether one is taken for the other's copy."""
    pure = [rule.copy(record) for record in records]
    for at, theirs in originals.items():
        ours = rule.original("t", records[at])
        assert ours is not None
        assert theirs.time_ms == ours.time_ms
        equal = {place for place, target in targets.items() if theirs.equals(target)}
        assert equal == {place for place, target in enumerate(pure) if ours.equals(target)}


def frame_of(spark: SparkSession, records: Sequence[KafkaRecord]) -> DataFrame:
    """*records* as Spark's Kafka source has them, at the offsets 0, 1, ..."""
    rows = [
        (
            record.key,
            record.value,
            "t",
            0,
            offset,
            EPOCH + timedelta(milliseconds=record.timestamp_ms),
            LOG_APPEND_TIME if record.is_append_time else 0,
            record.headers or None,
        )
        for offset, record in enumerate(records)
    ]
    return spark.createDataFrame(rows, SOURCE_SCHEMA)


def copy_in(row: Row) -> Copy:
    headers = tuple((header.key, data(header.value)) for header in row.headers or ())
    time_ms = None if row.time_ms == NO_TIME else row.time_ms
    return Copy(data(row.key), data(row.value), headers, time_ms)


def data(value: bytearray | None) -> bytes | None:
    return None if value is None else bytes(value)


def printed(frame: DataFrame) -> dict[int, Fingerprint]:
    return {
        row.offset: Fingerprint(row.offset, row.content, row.time_ms) for row in frame.collect()
    }
