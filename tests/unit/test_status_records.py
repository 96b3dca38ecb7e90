"""Records of Connect's status topic: keys, values, and the partition of a key."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replication.mm2.status_records import (
    StatusKey,
    StatusRecordError,
    own_part,
    partition_of,
    topic_value,
    worker_value,
)

NAMES = st.text(min_size=1, max_size=40)


@pytest.mark.parametrize(
    ("key", "encoded"),
    [
        (StatusKey("MirrorSourceConnector"), b"status-connector-MirrorSourceConnector"),
        (StatusKey("MirrorSourceConnector", task=3), b"status-task-MirrorSourceConnector-3"),
        (StatusKey("C", topic="A.orders"), b"status-topic-A.orders:connector-C"),
    ],
)
def test_keys_are_those_of_connect(key: StatusKey, encoded: bytes) -> None:
    assert key.encode() == encoded
    assert StatusKey.decode(encoded) == key


@given(topic=NAMES.filter(lambda name: ":connector-" not in name))
def test_a_key_of_any_topic_is_read_back(topic: str) -> None:
    key = StatusKey("MirrorSourceConnector", topic=topic)

    assert StatusKey.decode(key.encode()) == key


@pytest.mark.parametrize("key", [None, b"", b"session-key", b"status-task-x", b"status-topic-x"])
def test_another_key_is_refused(key: bytes | None) -> None:
    with pytest.raises(StatusRecordError, match="not a key of Connect"):
        StatusKey.decode(key)


# what Kafka's own UtilsTest expects of Utils.murmur2
@pytest.mark.parametrize(
    ("key", "murmur2"),
    [
        ("21", -973932308),
        ("foobar", -790332482),
        ("a-little-bit-long-string", -985981536),
        ("a-little-bit-longer-string", -1486304829),
        ("abc", 479470107),
    ],
)
def test_a_key_stays_in_the_partition_to_which_java_sends_it(key: str, murmur2: int) -> None:
    assert partition_of(key.encode(), 2**31) == murmur2 & 0x7FFFFFFF


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("waiting", "UNASSIGNED"),
        ("draining", "RUNNING"),
        ("paused", "PAUSED"),
        ("drained", "STOPPED"),
        ("failed", "FAILED"),
        ("of a later version", "UNASSIGNED"),
    ],
)
def test_connect_is_told_a_state_that_it_knows(state: str, expected: str) -> None:
    value = worker_value(state, "host/A->B/1", 3, "", {"v": 1})

    assert json.loads(value) == {
        "state": expected,
        "trace": None,
        "worker_id": "host/A->B/1",
        "generation": 3,
        "replication": {"v": 1},
    }


def test_our_part_is_read_from_workers_and_topics_and_missing_in_what_connect_writes() -> None:
    worker = worker_value("failed", "w", 1, "why\nand where", {"v": 1})

    assert own_part(worker) == {"v": 1}
    assert b"\n" not in worker
    assert own_part(topic_value("orders", "C", 5, {"v": 2})) == {"v": 2}
    assert own_part(b'{"state":"RUNNING","worker_id":"w","generation":1}') is None
    assert own_part(None) is None


@pytest.mark.parametrize("value", [b"", b"{", b"[1]", b"\xff"])
def test_a_value_that_is_no_object_is_refused(value: bytes) -> None:
    with pytest.raises(StatusRecordError):
        own_part(value)
