"""The record formats of MirrorMaker 2's offset syncs, checkpoints and heartbeats."""

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

Message = OffsetSync | Checkpoint | Heartbeat

# written by the Java classes of MirrorMaker 2
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


@pytest.mark.parametrize(("message", "key", "value"), EXAMPLES)
def test_the_bytes_equal_those_of_mirrormaker(message: Message, key: str, value: str) -> None:
    assert message.key() == bytes.fromhex(key)
    assert message.value() == bytes.fromhex(value)
    assert type(message).decode(bytes.fromhex(key), bytes.fromhex(value)) == message


@pytest.mark.parametrize(("message", "key", "value"), EXAMPLES)
def test_trailing_bytes_are_ignored(message: Message, key: str, value: str) -> None:
    longer = bytes.fromhex(key) + b"\x01", bytes.fromhex(value) + b"\xff\xff"

    assert type(message).decode(*longer) == message


@pytest.mark.parametrize(("message", "key", "value"), EXAMPLES)
def test_every_truncated_record_is_rejected(message: Message, key: str, value: str) -> None:
    whole_key, whole_value = bytes.fromhex(key), bytes.fromhex(value)
    for size in range(len(whole_key)):
        with pytest.raises(TruncatedError, match=f"it has {size} bytes"):
            type(message).decode(whole_key[:size], whole_value)
    for size in range(len(whole_value)):
        with pytest.raises(TruncatedError, match=f"it has {size} bytes"):
            type(message).decode(whole_key, whole_value[:size])


@pytest.mark.parametrize(("message", "key", "value"), EXAMPLES)
def test_a_null_key_or_value_is_rejected(message: Message, key: str, value: str) -> None:
    with pytest.raises(NullError, match="value is null"):
        type(message).decode(bytes.fromhex(key), None)
    with pytest.raises(NullError, match="key is null"):
        type(message).decode(None, bytes.fromhex(value))


@pytest.mark.parametrize(("message", "key", "value"), EXAMPLES[1:])
@pytest.mark.parametrize("version", [1, -1, 256])
def test_another_version_is_rejected(message: Message, key: str, value: str, version: int) -> None:
    changed = version.to_bytes(2, "big", signed=True) + bytes.fromhex(value)[2:]

    with pytest.raises(VersionError, match=f"has version {version}, only 0 is supported"):
        type(message).decode(bytes.fromhex(key), changed)


@pytest.mark.parametrize(
    ("key", "problem"),
    [
        pytest.param(b"\xff\xff", "topic has the length -1", id="null string"),
        pytest.param(b"\x00\x01\xff\x00\x00\x00\x00", "topic is not UTF-8", id="not UTF-8"),
    ],
)
def test_a_key_without_valid_text_is_rejected(key: bytes, problem: str) -> None:
    with pytest.raises(WireError, match=problem):
        OffsetSync.decode(key, bytes(16))


@pytest.mark.parametrize(
    ("encode", "problem"),
    [
        pytest.param(
            lambda: Checkpoint("g", TopicPartition("t", 0), 0, 0, "é" * 16_384).value(),
            "metadata may have at most 32767 bytes in UTF-8, got 32768",
            id="too many bytes, not too many letters",
        ),
        pytest.param(lambda: Heartbeat("a" * 32_768, "b", 0).key(), "got 32768", id="alias"),
        pytest.param(
            lambda: OffsetSync(TopicPartition("t", 0), 1 << 63, 0).value(),
            "upstreamOffset does not fit into 8 bytes",
            id="offset",
        ),
        pytest.param(lambda: Heartbeat("\ud800", "b", 0).key(), "not valid text", id="surrogate"),
    ],
)
def test_a_value_that_cannot_be_encoded_is_rejected(
    encode: Callable[[], bytes], problem: str
) -> None:
    with pytest.raises(WireError, match=problem):
        encode()


def test_the_longest_string_survives_a_round_trip() -> None:
    longest = Checkpoint("g", TopicPartition("t", 0), 0, 0, "x" * 32_767)

    assert Checkpoint.decode(longest.key(), longest.value()) == longest


def test_missing_metadata_is_an_empty_string() -> None:
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
def test_a_round_trip_changes_nothing(message: Message) -> None:
    assert type(message).decode(message.key(), message.value()) == message


@given(st.binary(max_size=60), st.binary(max_size=60))
@pytest.mark.parametrize("kind", [OffsetSync, Checkpoint, Heartbeat])
def test_random_bytes_decode_or_are_rejected(kind: type[Message], key: bytes, value: bytes) -> None:
    try:
        message = kind.decode(key, value)
    except WireError:
        return
    assert value.startswith(message.value())
    assert key.startswith(message.key())
