"""The bytes of MirrorMaker 2's three bookkeeping records."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replication.mm2.wire import (
    Checkpoint,
    Heartbeat,
    NullError,
    OffsetSync,
    TruncatedError,
    VersionError,
    WireError,
)
from replication.model import TopicPartition

Fact = OffsetSync | Checkpoint | Heartbeat

# bytes that the real Java classes wrote
EXAMPLES = [
    pytest.param(
        OffsetSync(TopicPartition("test-topic-1", 0), 1000, 997),
        "000c 746573742d746f7069632d31 00000000",
        "00000000000003e8 00000000000003e5",
        id="offset sync",
    ),
    pytest.param(
        Checkpoint("my-group", TopicPartition("primary.test-topic-1", 7), 1000, 998, ""),
        "0008 6d792d67726f7570 0014 7072696d6172792e746573742d746f7069632d31 00000007",
        "0000 00000000000003e8 00000000000003e6 0000",
        id="checkpoint",
    ),
    pytest.param(
        Checkpoint("group-1", TopicPartition("topic-2", 3), 4, 5, "metadata-6"),
        "0007 67726f75702d31 0007 746f7069632d32 00000003",
        "0000 0000000000000004 0000000000000005 000a 6d657461646174612d36",
        id="checkpoint with metadata",
    ),
    pytest.param(
        Heartbeat("primary", "backup", 1_760_000_000_000),
        "0007 7072696d617279 0006 6261636b7570",
        "0000 00000199c82cc000",
        id="heartbeat",
    ),
]


@pytest.mark.parametrize(("fact", "key", "value"), EXAMPLES)
def test_bytes_are_those_of_mirrormaker(fact: Fact, key: str, value: str) -> None:
    assert fact.key() == bytes.fromhex(key)
    assert fact.value() == bytes.fromhex(value)
    assert type(fact).decode(bytes.fromhex(key), bytes.fromhex(value)) == fact


@pytest.mark.parametrize(("fact", "key", "value"), EXAMPLES)
def test_trailing_bytes_are_ignored(fact: Fact, key: str, value: str) -> None:
    longer = bytes.fromhex(key) + b"\x01", bytes.fromhex(value) + b"\xff\xff"

    assert type(fact).decode(*longer) == fact


@pytest.mark.parametrize(("fact", "key", "value"), EXAMPLES)
def test_every_shorter_record_is_refused(fact: Fact, key: str, value: str) -> None:
    whole_key, whole_value = bytes.fromhex(key), bytes.fromhex(value)
    for size in range(len(whole_key)):
        with pytest.raises(TruncatedError, match=f"it has {size} bytes"):
            type(fact).decode(whole_key[:size], whole_value)
    for size in range(len(whole_value)):
        with pytest.raises(TruncatedError, match=f"it has {size} bytes"):
            type(fact).decode(whole_key, whole_value[:size])


@pytest.mark.parametrize(("fact", "key", "value"), EXAMPLES)
def test_null_is_refused_by_name(fact: Fact, key: str, value: str) -> None:
    with pytest.raises(NullError, match="value is null"):
        type(fact).decode(bytes.fromhex(key), None)
    with pytest.raises(NullError, match="key is null"):
        type(fact).decode(None, bytes.fromhex(value))


@pytest.mark.parametrize(("fact", "key", "value"), EXAMPLES[1:])
@pytest.mark.parametrize("version", [1, -1, 256])
def test_another_version_is_refused(fact: Fact, key: str, value: str, version: int) -> None:
    changed = version.to_bytes(2, "big", signed=True) + bytes.fromhex(value)[2:]

    with pytest.raises(VersionError, match=f"has version {version}, only 0 is known"):
        type(fact).decode(bytes.fromhex(key), changed)


@pytest.mark.parametrize(
    ("key", "problem"),
    [
        pytest.param(b"\xff\xff", "topic has the length -1", id="null string"),
        pytest.param(b"\x00\x01\xff\x00\x00\x00\x00", "topic is not UTF-8", id="not UTF-8"),
    ],
)
def test_a_key_that_is_no_text_is_refused(key: bytes, problem: str) -> None:
    with pytest.raises(WireError, match=problem):
        OffsetSync.decode(key, bytes(16))


@pytest.mark.parametrize(
    ("encode", "problem"),
    [
        pytest.param(
            lambda: Checkpoint("g", TopicPartition("t", 0), 0, 0, "é" * 16_384).value(),
            "metadata may hold 32767 bytes as UTF-8, got 32768",
            id="too long in bytes, not in letters",
        ),
        pytest.param(lambda: Heartbeat("a" * 32_768, "b", 0).key(), "got 32768", id="alias"),
        pytest.param(
            lambda: OffsetSync(TopicPartition("t", 0), 1 << 63, 0).value(),
            "upstreamOffset does not fit 8 bytes",
            id="offset",
        ),
        pytest.param(lambda: Heartbeat("\ud800", "b", 0).key(), "not valid text", id="surrogate"),
    ],
)
def test_what_has_no_bytes_is_refused(encode: Callable[[], bytes], problem: str) -> None:
    with pytest.raises(WireError, match=problem):
        encode()


def test_the_longest_string_crosses() -> None:
    longest = Checkpoint("g", TopicPartition("t", 0), 0, 0, "x" * 32_767)

    assert Checkpoint.decode(longest.key(), longest.value()) == longest


def test_null_metadata_is_written_as_none() -> None:
    assert Checkpoint("g", TopicPartition("t", 0), 1, 2, None) == Checkpoint(
        "g", TopicPartition("t", 0), 1, 2, ""
    )


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
PARTITION = st.builds(TopicPartition, TEXT, st.integers(0, (1 << 31) - 1))


@given(
    st.one_of(
        st.builds(OffsetSync, PARTITION, INT64, INT64),
        st.builds(Checkpoint, TEXT, PARTITION, INT64, INT64, TEXT),
        st.builds(Heartbeat, TEXT, TEXT, INT64),
    )
)
def test_a_round_trip_changes_nothing(fact: Fact) -> None:
    assert type(fact).decode(fact.key(), fact.value()) == fact


@given(st.binary(max_size=60), st.binary(max_size=60))
@pytest.mark.parametrize("kind", [OffsetSync, Checkpoint, Heartbeat])
def test_any_bytes_decode_or_are_refused(kind: type[Fact], key: bytes, value: bytes) -> None:
    try:
        fact = kind.decode(key, value)
    except WireError:
        return
    assert value.startswith(fact.value())
    assert key.startswith(fact.key())
