"""Dead letters: nothing of a record is lost in one, and it is known by its last header."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replication.model import Flow, TopicPartition
from replication.offsets.copy_rule import Headers
from replication.offsets.dead_letter import (
    CONNECT,
    IDENTITY,
    DeadLetter,
    InARow,
    LetterId,
    identity_of,
    letter_of,
)

FLOW = Flow("A", "B")
ID = LetterId("orders", "id", 3, 4711)
TP = TopicPartition("orders", 0)

OCTETS = st.none() | st.binary(max_size=20)
HEADERS = st.lists(
    st.tuples(
        st.text(max_size=5) | st.sampled_from([IDENTITY, f"{CONNECT}topic"]),
        OCTETS | st.just(json.dumps({"flow": "A->B", **ID._asdict(), "headers": 0}).encode()),
    ),
    max_size=4,
).map(tuple)


@given(OCTETS, OCTETS, HEADERS, st.integers(-1, 2**62), st.text(max_size=30))
def test_a_letter_gives_the_record_back(
    key: bytes | None, value: bytes | None, headers: Headers, time_ms: int, reason: str
) -> None:
    letter = DeadLetter(FLOW, ID, "KAFKA_PRODUCE", reason, time_ms, key, value, headers)

    assert letter_of(FLOW, key, value, letter.headers_of_letter()) == letter
    assert identity_of(FLOW, letter.headers_of_letter()) == ID
    assert identity_of(FLOW, letter.headers_of_copy()) == ID
    assert letter.headers_of_copy()[:-1] == headers


def test_a_letter_has_the_headers_of_connects_queue() -> None:
    letter = DeadLetter(FLOW, ID, "KAFKA_PRODUCE", "RecordTooLargeException: 3 MB")
    found = dict(letter.headers_of_letter())

    assert found[f"{CONNECT}topic"] == b"orders"
    assert found[f"{CONNECT}partition"] == b"3"
    assert found[f"{CONNECT}offset"] == b"4711"
    assert found[f"{CONNECT}stage"] == b"KAFKA_PRODUCE"
    assert found[f"{CONNECT}exception.class.name"] == b"RecordTooLargeException"
    assert found[f"{CONNECT}exception.message"] == b"RecordTooLargeException: 3 MB"


@pytest.mark.parametrize(
    "headers",
    [
        (),
        ((IDENTITY, None),),
        ((IDENTITY, b"[]"),),
        ((IDENTITY, b'{"flow": "A->B"}'),),
        ((IDENTITY, b"\xff"),),
        (*DeadLetter(FLOW, ID, "KAFKA_PRODUCE", "").headers_of_letter(), ("x", b"y")),
        DeadLetter(Flow("C", "B"), ID, "KAFKA_PRODUCE", "").headers_of_letter(),
    ],
)
def test_another_record_is_no_letter(headers: Headers) -> None:
    assert identity_of(FLOW, headers) is None
    assert letter_of(FLOW, None, None, headers) is None


def test_a_record_that_is_copied_begins_the_count_anew() -> None:
    row = InARow(most=2)
    for end in (1, 2):
        assert not row.is_exhausted(TP, end - 1)
        row.add(TP, end - 1, end)

    assert row.is_exhausted(TP, 2)
    assert not row.is_exhausted(TP, 3)  # the one at 2 was copied
    row.add(TP, 3, 4)
    assert not row.is_exhausted(TP, 4)
