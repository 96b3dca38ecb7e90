"""What clients may have on its way to a cluster that is far away."""

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replication.model import Flow, TopicPartition
from replication.spark.kafka_options import RoundTrips, sharing_options, sink_options
from tests.support.distance import Direction, Way

MIB = 1 << 20
FLOW = Flow("A", "B")
PARTITION = TopicPartition("t", 0)
TAKEN = 982_991
"""The largest ``batch.size`` with which `BatchRoom` does not wait for a topic's default limit."""


@pytest.mark.parametrize(
    ("round_trip_s", "tasks", "brokers", "each"),
    [
        pytest.param(0.001, 1, 1, MIB, id="near"),
        pytest.param(0.1, 1, 1, 13_421_772, id="100 ms"),
        pytest.param(0.3, 1, 1, 32 * MIB, id="no more than the memory"),
        pytest.param(0.1, 2, 3, 32 * MIB // 6, id="which tasks and brokers share"),
    ],
)
def test_a_fetch_from_afar_brings_more_of_a_partition(
    round_trip_s: float, tasks: int, brokers: int, each: int
) -> None:
    starts = {TopicPartition("t", number): 0 for number in range(6)}

    options = sharing_options({}, starts, tasks, brokers, RoundTrips(source=round_trip_s))

    assert options["kafka.max.partition.fetch.bytes"] == str(each)
    assert int(options["kafka.fetch.max.bytes"]) * tasks * brokers <= 32 * MIB


def test_a_value_of_the_configuration_wins_at_any_distance() -> None:
    far = RoundTrips(0.1, 0.1)
    consumer, producer = {"max.partition.fetch.bytes": "7"}, {"batch.size": "9"}

    source = sharing_options(consumer, {PARTITION: 0}, 1, 1, far)
    sink = sink_options(producer, FLOW, intercepted=True, distance=far)

    assert source["kafka.max.partition.fetch.bytes"] == "7"
    assert sink["kafka.batch.size"] == "9"


@pytest.mark.parametrize(
    ("round_trip_s", "partitions", "batch", "buffer"),
    [
        pytest.param(0.001, 1, 262_144, 16 * MIB, id="near"),
        pytest.param(0.1, 1, TAKEN, 16 * MIB, id="100 ms, as much as a topic takes"),
        pytest.param(0.05, 1, 671_088, 16 * MIB, id="50 ms"),
        pytest.param(0.1, 16, 419_430, 16 * MIB, id="many partitions fill the distance together"),
        pytest.param(0.1, 1000, 67_108, 67_108_000, id="each partition has room for a batch"),
        pytest.param(0.2, 8, TAKEN, 26_843_544, id="room for what is on its way and what follows"),
        pytest.param(2.0, 1, TAKEN, 64 * MIB, id="never more than the most"),
    ],
)
def test_batches_to_afar_fill_the_distance(
    round_trip_s: float, partitions: int, batch: int, buffer: int
) -> None:
    far = RoundTrips(target=round_trip_s)

    options = sink_options({}, FLOW, intercepted=True, tasks=partitions, distance=far)

    assert options["kafka.batch.size"] == str(batch)
    assert options["kafka.buffer.memory"] == str(buffer)


@pytest.mark.parametrize(
    ("limits", "batch"),
    [((300_000, 1_048_588), 281_189), ((60_000,), 262_144), ((2_097_152,), 1_342_177)],
)
def test_batches_to_afar_are_no_larger_than_the_room_of_the_smallest_topic(
    limits: tuple[int, ...], batch: int
) -> None:
    far = RoundTrips(target=0.1)

    options = sink_options({}, FLOW, intercepted=True, limits=limits, distance=far)

    assert options["kafka.batch.size"] == str(batch)


@given(st.floats(0, 5), st.integers(1, 5000))
def test_no_batch_is_larger_than_a_topic_takes_by_default(seconds: float, partitions: int) -> None:
    far = RoundTrips(target=seconds)

    options = sink_options({}, FLOW, intercepted=True, tasks=partitions, distance=far)

    assert 16_384 <= int(options["kafka.batch.size"]) <= MIB
    assert 16 * MIB <= int(options["kafka.buffer.memory"]) <= 64 * MIB


@contextmanager
def carried(way: Way) -> Iterator[tuple[socket.socket, socket.socket]]:
    """Both ends of a connection, one of whose directions is as long as *way*."""
    (sender, first), (second, receiver) = socket.socketpair(), socket.socketpair()
    try:
        Direction(first, second, way).start()
        yield sender, receiver
    finally:
        for one in (sender, first, second, receiver):
            one.close()


def test_bytes_arrive_in_order_and_no_sooner_than_half_a_round_trip() -> None:
    with carried(Way(round_trip_s=0.1, jitter_s=0.02, loss=0.3)) as (sender, receiver):
        began = time.monotonic()
        sender.sendall(b"a")
        first = receiver.recv(1)
        took = time.monotonic() - began
        for number in range(100):
            sender.sendall(bytes([number]))
        sender.shutdown(socket.SHUT_WR)
        with receiver.makefile("rb") as rest:
            assert (first, rest.read()) == (b"a", bytes(range(100)))

    assert took >= 0.05


def test_no_more_than_the_window_is_on_its_way() -> None:
    way = Way(round_trip_s=0.05, window_bytes=1 << 18)
    whole = 8 * way.window_bytes
    with carried(way) as (sender, receiver):
        began = time.monotonic()
        sending = Thread(target=sender.sendall, args=(bytes(whole),))
        sending.start()
        with receiver.makefile("rb") as rest:
            assert len(rest.read(whole)) == whole
        sending.join()

    # a chunk may overshoot the window by its own size
    assert time.monotonic() - began >= 0.05 * (whole / (2 * way.window_bytes) - 1)
