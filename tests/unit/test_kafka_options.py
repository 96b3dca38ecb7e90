"""Options of Spark's source and sink, without a JVM."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from replication.model import Flow, TopicPartition
from replication.spark.kafka_options import (
    RoundTrips,
    limits_text,
    offsets_json,
    parse_offsets,
    sharing_options,
    sink_options,
    source_options,
)

MIB = 1_048_576
ORDERS_0, ORDERS_1, LOG_0 = (
    TopicPartition("orders", 0),
    TopicPartition("orders", 1),
    TopicPartition("log", 0),
)


def test_the_source_reads_exactly_the_partitions_given_from_their_offsets() -> None:
    options = source_options({"bootstrap.servers": "a:1"}, {ORDERS_1: 7, ORDERS_0: 5, LOG_0: 0})

    assert json.loads(options["assign"]) == {"log": [0], "orders": [0, 1]}
    assert json.loads(options["startingOffsets"]) == {"log": {"0": 0}, "orders": {"0": 5, "1": 7}}
    assert options["failOnDataLoss"] == options["includeHeaders"] == "true"
    assert options["kafka.bootstrap.servers"] == "a:1"


def test_the_user_overrides_our_defaults_but_not_what_spark_owns() -> None:
    consumer = {"max.poll.records": "5", "auto.offset.reset": "latest"}

    options = source_options(consumer, {LOG_0: 0})

    assert options["kafka.max.poll.records"] == "5"
    assert "kafka.auto.offset.reset" not in options


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("acks", "all"),
        ("enable.idempotence", "true"),
        ("max.in.flight.requests.per.connection", "5"),
        ("delivery.timeout.ms", "2147483647"),
        ("linger.ms", "0"),
    ],
)
def test_the_sink_keeps_the_order_and_gives_up_no_batch(key: str, value: str) -> None:
    options = sink_options({}, Flow("A", "B"), intercepted=True)

    assert options[f"kafka.{key}"] == value


def waits(consumer: dict[str, str], *, is_bounded: bool) -> str | None:
    """How long a fetch waits for records; None is Kafka's default."""
    options = source_options(consumer, {LOG_0: 0}, is_bounded=is_bounded)
    return options.get("kafka.fetch.max.wait.ms")


def test_a_read_of_what_is_there_waits_for_no_record_unless_the_user_wants_it() -> None:
    assert waits({}, is_bounded=True) == "1"
    assert waits({"request.timeout.ms": "3000"}, is_bounded=True) == "1"
    assert waits({"fetch.max.wait.ms": "90"}, is_bounded=True) == "90"


def test_a_task_of_realtime_mode_waits_for_records_as_kafkas_consumers_do() -> None:
    assert waits({}, is_bounded=False) is None
    assert waits({"fetch.max.wait.ms": "90"}, is_bounded=False) == "90"


def test_many_tasks_fetch_and_send_less_each() -> None:
    def sizes(tasks: int) -> tuple[str, ...]:
        source = source_options({}, {LOG_0: 0}, tasks=tasks)
        sink = sink_options({}, Flow("A", "B"), intercepted=True, tasks=tasks)
        keys = ("max.partition.fetch.bytes", "max.poll.records", "batch.size", "buffer.memory")
        return tuple({**source, **sink}[f"kafka.{key}"] for key in keys)

    assert sizes(1) == sizes(32) == ("1048576", "2000", "262144", "16777216")
    assert sizes(64) == ("524288", "2000", "262144", "16777216")
    assert sizes(512) == ("65536", "250", "262144", "16777216")
    assert sizes(2000) == ("65536", "100", "262144", "52428800")
    assert sizes(10_000) == ("65536", "100", "67108", "67108000")


@given(st.floats(0, 5), st.integers(1, 20_000))
@example(0.015625, 65)  # a turn and a bit: the last partition would wait for two
@example(0.009, 131)
def test_single_records_of_all_partitions_find_room_soon(seconds: float, partitions: int) -> None:
    options = sink_options(
        {}, Flow("A", "B"), intercepted=True, tasks=partitions, distance=RoundTrips(0, seconds)
    )
    batch, buffer = (int(options[f"kafka.{key}"]) for key in ("batch.size", "buffer.memory"))

    assert batch >= 16_384
    assert 16 * MIB <= buffer <= 64 * MIB
    turns = -(-partitions // (buffer // batch))  # of which each waits for the acknowledgements
    assert batch == 16_384 or turns == 1 or turns * max(seconds, 0.002) <= 0.022


def test_the_users_sizes_hold_for_many_tasks() -> None:
    source = source_options({"max.partition.fetch.bytes": "7"}, {LOG_0: 0}, tasks=1000)
    sink = sink_options({"batch.size": "9"}, Flow("A", "B"), intercepted=True, tasks=1000)

    assert source["kafka.max.partition.fetch.bytes"] == "7"
    assert sink["kafka.batch.size"] == "9"


def test_only_preserved_timestamps_need_the_interceptor() -> None:
    flow = Flow("A", "B")

    assert sink_options({}, flow, intercepted=True)["kafka.interceptor.classes"] == (
        "replication.producer.PreserveTimestamps,replication.producer.OwnerOnly"
    )
    assert "kafka.interceptor.classes" not in sink_options({}, flow, intercepted=False)


def test_without_the_interceptor_no_batch_is_larger_than_a_topic_takes() -> None:
    def batch_size(*, intercepted: bool, limits: tuple[int, ...], **producer: str) -> str:
        given = {key.replace("_", "."): value for key, value in producer.items()}
        options = sink_options(given, Flow("A", "B"), intercepted=intercepted, limits=limits)
        return options["kafka.batch.size"]

    assert batch_size(intercepted=False, limits=(1_000_000, 60_000)) == "60000"
    assert batch_size(intercepted=False, limits=(60_000,), batch_size="9000") == "9000"
    assert batch_size(intercepted=False, limits=()) == "262144"
    assert batch_size(intercepted=True, limits=(60_000,)) == "262144"  # the interceptor's part


def test_the_buffer_has_room_for_the_largest_record_that_a_topic_takes() -> None:
    def buffer(*limits: int, **producer: str) -> str:
        given = {key.replace("_", "."): value for key, value in producer.items()}
        options = sink_options(given, Flow("A", "B"), intercepted=True, limits=limits)
        return options["kafka.buffer.memory"]

    assert buffer() == buffer(1_048_588, 60_000) == "16777216"
    assert buffer(1_048_588, 20_000_000) == "40000000"
    assert buffer(1_048_588, batch_size="10000000") == "20000000"
    assert buffer(2_147_483_647) == "67108864"
    assert buffer(20_000_000, buffer_memory="9000000") == "9000000"


def test_limits_of_many_topics_are_a_short_text() -> None:
    alike = {f"A.t{number}": 1_048_588 for number in range(1000)}

    assert limits_text(alike) == ",*=1048588,"
    assert limits_text({**alike, "A.small": 60_000}) == ",*=1048588,A.small=60000,"
    assert limits_text({"A.t": 5}) == ",*=5,"


def test_parse_offsets_inverts_offsets_json() -> None:
    offsets = {ORDERS_0: 5, ORDERS_1: 7, LOG_0: 0}

    assert parse_offsets(offsets_json(offsets)) == offsets
    assert parse_offsets(None) == {}


@pytest.mark.parametrize(
    ("partitions", "tasks", "brokers", "fetch", "each"),
    [
        pytest.param(8, 1, 1, 32 * MIB, MIB, id="one task, one broker"),
        pytest.param(1000, 2, 3, 32 * MIB // 6, MIB, id="the tasks share, and the brokers"),
        pytest.param(8, 4, 12, 4 * MIB, MIB, id="two partitions are of two brokers at most"),
        pytest.param(1000, 8, 12, 32 * MIB // 96, 32 * MIB // 96, id="twelve brokers"),
        pytest.param(1000, 8, 100, MIB // 4, MIB // 4, id="the least"),
    ],
)
def test_what_tasks_fetch_is_bounded_by_brokers_and_not_by_partitions(
    partitions: int, tasks: int, brokers: int, fetch: int, each: int
) -> None:
    starts = {TopicPartition("t", number): 0 for number in range(partitions)}

    options = sharing_options({}, starts, tasks, brokers)

    assert options["kafka.fetch.max.bytes"] == str(fetch)
    assert options["kafka.max.partition.fetch.bytes"] == str(each)
    assert options["tasks"] == str(tasks)


@given(
    partitions=st.integers(1, 5000),
    tasks=st.integers(1, 100),
    brokers=st.integers(0, 100),
)
def test_all_fetches_stay_within_the_budget_or_are_the_least(
    partitions: int, tasks: int, brokers: int
) -> None:
    starts = {TopicPartition("t", number): 0 for number in range(partitions)}

    fetch = int(sharing_options({}, starts, tasks, brokers)["kafka.fetch.max.bytes"])

    of_a_task = -(-partitions // tasks)
    assert fetch == MIB // 4 or fetch * tasks * min(max(1, brokers), of_a_task) <= 32 * MIB


@pytest.mark.parametrize("tasks", [1, 2, 4, 8])
def test_a_flow_of_a_source_with_twelve_brokers_takes_64_mib_of_a_heap(tasks: int) -> None:
    """A consumer holds two answers of each broker: of a heap of 1 GB that is a sixteenth."""
    starts = {TopicPartition("t", number): 0 for number in range(1200)}

    fetch = int(sharing_options({}, starts, tasks, 12)["kafka.fetch.max.bytes"])

    assert 63 * MIB < 2 * tasks * 12 * fetch <= 64 * MIB


def test_the_shared_source_takes_the_starts_and_the_client_s_own_values() -> None:
    options = sharing_options(
        {"bootstrap.servers": "a:1", "fetch.max.bytes": "7", "group.id": "g"}, {LOG_0: 5}, 2, 1
    )

    assert json.loads(options["startingOffsets"]) == {LOG_0.topic: {"0": 5}}
    assert options["kafka.bootstrap.servers"] == "a:1"
    assert options["kafka.fetch.max.bytes"] == "7"
    assert "kafka.fetch.max.wait.ms" not in options, "a task waits as Kafka's client does"
