"""What the hour of faults finds fault with: series, memory and minutes of history."""

from dataclasses import replace

from tests.soak.growth import (
    Look,
    has_grown,
    leaks,
    lost_minutes,
    repeated_minutes,
    series_of,
)

OWNER = (7, "2026-11-26T10:00:00Z")
PAGE = """\
# HELP kafka_replication_lag_records How many.
# TYPE kafka_replication_lag_records gauge
kafka_replication_lag_records{source="A",target="B",topic="t1"} 3.0
kafka_replication_lag_records{source="A",target="B",topic="a } 1"} 0.0
kafka_replication_partition_lag_records{source="A",target="B",topic="t1",partition="0"} 3.0
kafka_replication_lease_held{source="A",target="B",part="records"} 1.0
kafka_replication_records_total{source="A",target="B",topic="t1"} 1e+06
kafka_replication_latency_seconds_bucket{source="A",target="B",le="+Inf"} 7.0
python_info 1.0
"""
MB = 1 << 20


def look(at: float, topics: int = 2, **more: int) -> Look:
    """A look at a flow with so many topics, and with further series."""
    by_topic = {"kafka_replication_records_total": topics, "lag_records": topics}
    return Look(at, "running", OWNER, {"lease_held": 3, **more}, by_topic)


def test_series_are_counted_by_metric_and_those_of_partitions_are_not() -> None:
    flow, topics = series_of(PAGE)

    assert flow == {
        "kafka_replication_lease_held": 1,
        "kafka_replication_latency_seconds_bucket": 1,
        "python_info": 1,
    }
    assert topics == {"kafka_replication_lag_records": 2, "kafka_replication_records_total": 1}


def test_more_topics_explain_more_series_and_nothing_else_does() -> None:
    begun = [look(at) for at in range(30)]

    assert leaks([*begun, *(look(at, topics=9) for at in range(30, 60))]) == []
    assert leaks([*begun, *(look(at, info=2) for at in range(30, 60))]) == []
    assert leaks([*begun, *(look(at, info=3) for at in range(30, 60))]) == [
        "info: 3 series, and 0 at first"
    ]
    more = [replace(look(at), topic_series={**look(at).topic_series, "x": 5}) for at in (70, 80)]
    assert leaks([*begun, *more]) == ["x: 2.50 series a topic, 0.00 at first"]


def test_memory_that_comes_back_has_not_grown() -> None:
    assert not has_grown([50 * MB, 90 * MB, 51 * MB, 95 * MB, 52 * MB, 53 * MB])
    assert has_grown([50 * MB, 52 * MB, 60 * MB, 68 * MB, 76 * MB, 84 * MB])
    assert not has_grown([50 * MB, 90 * MB, 500 * MB])  # too few to tell


def test_each_minute_that_an_owner_saw_whole_has_a_row() -> None:
    looks = [look(at) for at in range(90, 400, 5)]  # minutes 2 to 5, and parts of 1 and 6

    assert lost_minutes(looks, [60.0 * minute for minute in range(1, 7)]) == (4, [])
    assert lost_minutes(looks, [60.0, 120.0, 240.0, 300.0]) == (4, [3])


def test_a_minute_has_as_many_rows_as_owners() -> None:
    later = (8, "2026-11-26T10:03:00Z")
    looks = [look(60), look(120), replace(look(150), owner=later)]

    assert repeated_minutes(looks, [60.0, 120.0, 120.0]) == []
    assert repeated_minutes(looks, [60.0, 60.0, 120.0, 120.0, 120.0]) == [1, 2]
