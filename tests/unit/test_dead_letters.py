"""Dead letters: nothing of a record is lost in one, and it is known by its last header."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replication.model import Flow, Headers, TopicPartition
from replication.offsets.dead_letter import (
    CONNECT,
    IDENTITY,
    SPAN,
    DeadLetter,
    DeadLetterId,
    DeadLetterLimit,
    identity_of,
    letter_of,
)

FLOW = Flow("A", "B")
ID = DeadLetterId("orders", "id", 3, 4711)
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


ODD = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4)
IDENTITIES = st.fixed_dictionaries(
    {name: ODD | st.lists(ODD) | st.just(value) for name, value in ID._asdict().items()},
    optional={
        "headers": ODD, "read": ODD, "timestamp_ms": ODD | st.just(5),
        "stage": ODD | st.just("KAFKA_PRODUCE") | st.lists(ODD),
    },
)  # fmt: skip


@given(IDENTITIES.map(lambda found: json.dumps({"flow": str(FLOW), **found}).encode()) | OCTETS)
def test_a_header_that_somebody_forged_is_an_identity_of_the_right_types_or_none(
    forged: bytes | None,
) -> None:
    headers: Headers = (("x", b"\xff"), (IDENTITY, forged))
    found, letter = identity_of(FLOW, headers), letter_of(FLOW, None, None, headers)

    assert found is None or {found: 1}[found]
    assert found is None or list(map(type, found)) == [str, str, int, int]
    assert letter is None or (letter.id == found and len(letter.headers) <= len(headers))


@pytest.mark.parametrize(
    "forged", [b"[" * 100_000, b'{"flow": "A->B", "x": "%s"}' % (b"x" * 10**6)]
)
def test_a_header_without_an_end_is_no_identity(forged: bytes) -> None:
    assert identity_of(FLOW, ((IDENTITY, forged),)) is None


def test_letters_in_a_row_are_bounded_whatever_lies_between_their_offsets() -> None:
    bound = DeadLetterLimit(most=2)
    for start, end in ((0, 1_000), (1_000, 2_000)):
        assert not bound.is_reached(TP, start)
        bound.add(TP, start, end)

    assert bound.is_reached(TP, 2_000)
    assert not bound.is_reached(TP, 2_001), "a record was copied, and none is near"
    assert not bound.is_reached(TopicPartition("orders", 1), 2_000)


@given(st.lists(st.booleans(), min_size=1, max_size=300), st.integers(1, 5))
def test_letters_are_at_most_so_many_of_so_many_offsets(broken: list[bool], most: int) -> None:
    bound, kept = DeadLetterLimit(most), list[int]()
    for offset in (at for at, is_broken in enumerate(broken) if is_broken):
        if bound.is_reached(TP, offset):
            break  # the topic is set aside
        bound.add(TP, offset, offset + 1)
        kept.append(offset)

    for offset in kept:
        assert sum(offset - SPAN * most < other <= offset for other in kept) <= most
    if sum(broken) <= most:
        assert kept == [at for at, is_broken in enumerate(broken) if is_broken]
