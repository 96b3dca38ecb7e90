"""When a record on the target is taken for the copy of one on the source."""

import pytest

from replication.kafka.api import KafkaRecord
from replication.model import PROVENANCE, Headers
from replication.offsets.copy_rule import CopyRule
from replication.schemas.values import KnownIds

NOW_MS = 1_764_000_000_000
PRESERVE, BROKER = CopyRule("preserve", "A", "B"), CopyRule("broker")


def record(
    timestamp_ms: int, value: bytes | None = b"v", *, is_append_time: bool = False
) -> KafkaRecord:
    headers = (("h", b"1"), (PROVENANCE, b"A"))
    return KafkaRecord(7, timestamp_ms, b"k", value, headers, is_append_time)


def is_taken_for_copy(rule: CopyRule, source: KafkaRecord, target: KafkaRecord) -> bool:
    original = rule.original("t", source)
    return original is not None and original.equals(rule.copy(target))


@pytest.mark.parametrize(
    ("source", "target", "is_copy"),
    [
        (record(NOW_MS), record(NOW_MS), True),
        (record(NOW_MS), record(NOW_MS + 1), False),
        (record(-1), record(NOW_MS), True),
        (record(-1), record(NOW_MS, None), False),
        (record(NOW_MS), record(NOW_MS + 1, is_append_time=True), True),
        (record(NOW_MS, is_append_time=True), record(NOW_MS), True),
        (record(NOW_MS, is_append_time=True), record(NOW_MS + 1), False),
        (record(-1), record(NOW_MS, is_append_time=True), True),
    ],
)
def test_a_time_counts_only_where_both_records_have_one_of_their_own(
    source: KafkaRecord, target: KafkaRecord, *, is_copy: bool
) -> None:
    assert is_taken_for_copy(PRESERVE, source, target) == is_copy


def test_no_time_counts_where_the_flow_leaves_times_to_the_target() -> None:
    assert is_taken_for_copy(BROKER, record(NOW_MS), record(NOW_MS + 1))
    assert not is_taken_for_copy(BROKER, record(NOW_MS), record(NOW_MS, b"other"))


def test_a_copy_has_the_targets_id_of_its_schema() -> None:
    known = KnownIds()
    known.add("t", "value", 7, 1000)
    rule = CopyRule(schemas=known)
    framed, other = b"\0\0\0\0\7data", b"\0\0\0\x03\xe8data"

    assert is_taken_for_copy(rule, record(NOW_MS, framed), record(NOW_MS, other))
    assert not is_taken_for_copy(rule, record(NOW_MS, framed), record(NOW_MS, framed))
    elsewhere = rule.original("u", record(NOW_MS, framed))
    assert elsewhere is not None
    assert elsewhere.equals(rule.copy(record(NOW_MS, framed)))


@pytest.mark.parametrize(
    ("headers", "copied", "there"),
    [
        ((("__value_schema_id", b"\1" + bytes(16)),), b"\0\0\0\0\7data", None),
        ((("__key_schema_id", b"\1" + bytes(16)),), b"\0\0\0\x03\xe8data", None),
        ((("__value_schema_id", None),), b"\0\0\0\x03\xe8data", None),
        (
            (("__value_schema_id", b"old"), ("__value_schema_id", b"\0\0\0\0\7")),
            b"\0\0\0\0\7data",
            (("__value_schema_id", b"old"), ("__value_schema_id", b"\0\0\0\x03\xe8")),
        ),
    ],
)
def test_what_a_header_names_has_no_frame(
    headers: Headers, copied: bytes, there: Headers | None
) -> None:
    known = KnownIds()
    known.add("t", "value", 7, 1000)
    rule = CopyRule(schemas=known)
    original = KafkaRecord(0, NOW_MS, None, b"\0\0\0\0\7data", headers)
    copy = KafkaRecord(0, NOW_MS, None, copied, there or headers)
    assert is_taken_for_copy(rule, original, copy)
    assert is_taken_for_copy(rule, original, original) == (original == copy)
