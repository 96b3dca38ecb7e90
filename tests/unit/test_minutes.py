"""The figures of a flow by the minute: sums within it, worst values, nothing that is unknown."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from replication.figures.histogram import Histogram
from replication.figures.minutes import MOST_TOPICS, OTHERS, Minute, Minutes
from replication.figures.observation import Observation, PartitionFigures, TopicFigures
from replication.model import Flow

AB = Flow("A", "B")
BEGIN = 1_800_000_000.0  # a full minute


def look(at: float, **figures: float) -> Observation:
    return Observation(AB, BEGIN + at, "running", BEGIN, figures=figures)


def rows_of(*looks: Observation) -> list[Minute]:
    minutes = Minutes()
    return [row for one in looks for row in minutes.add(one)]


def test_a_minute_has_what_was_copied_in_it() -> None:
    first, second = rows_of(
        look(1, records_total=10, bytes_total=100),
        look(59, records_total=40, bytes_total=400),
        look(61, records_total=45, bytes_total=450),
        look(119, records_total=100, bytes_total=1000),
        look(121),
    )
    assert (first.at, first.seconds, first.values["records"]) == (BEGIN, 58, 30)
    assert (second.at, second.seconds) == (BEGIN + 60, 60)
    assert (second.values["records"], second.values["bytes"]) == (60, 600)


@given(st.lists(st.integers(0, 50), min_size=2, max_size=60))
def test_no_record_is_in_two_minutes_or_in_none(grown: list[int]) -> None:
    totals = [sum(grown[: n + 1]) for n in range(len(grown))]
    looks = [look(13.0 * n, records_total=total) for n, total in enumerate(totals)]
    rows = rows_of(*looks, look(13.0 * len(looks) + 60, records_total=totals[-1]))
    assert sum(row.values["records"] or 0 for row in rows) == totals[-1] - totals[0]


def test_the_worst_lag_of_a_minute_stays() -> None:
    (row,) = rows_of(
        look(1, lag_seconds=0, lag_records=0),
        look(20, lag_seconds=9, lag_records=90),
        look(50, lag_seconds=1, lag_records=10),
        look(60),
    )
    assert (row.values["lag_seconds"], row.values["lag_records"]) == (9, 90)


def test_what_is_unknown_is_none() -> None:
    (row,) = rows_of(look(1), look(60))
    assert set(row.values.values()) == {None, 0}
    assert row.values["paused"] == 0


def test_a_minute_says_how_much_was_paused_in_it_and_the_lag_of_the_rest() -> None:
    def pausing(at: float, paused: int, others: float) -> Observation:
        """A look with *paused* partitions, which lag by far more than the others."""
        figures = {"lag_seconds": 900.0, "unpaused_lag_seconds": others}
        parts = tuple(PartitionFigures(n, "paused", {}) for n in range(paused))
        topic = TopicFigures("t", None, "paused", "", figures, {}, parts)
        counted = {"partitions": {"paused": float(paused)}}
        return replace(look(at, **figures), labelled=counted, topics=(topic,))

    own, topic = rows_of(pausing(1, 2, 3.0), pausing(30, 1, 4.0), pausing(50, 0, 1.0), look(60))
    for row in (own, topic):
        found = (row.values["paused"], row.values["unpaused_lag_seconds"])
        assert found == (2, 4.0)
        assert row.values["lag_seconds"] == 900


def test_durations_are_those_of_the_minute() -> None:
    slow, fast = [0] * 12 + [100] + [0] * 6, [100] + [0] * 18
    before = Histogram.of(slow, 900.0)
    after = Histogram.of([a + b for a, b in zip(slow, fast, strict=True)], 900.1)
    looks = [
        replace(
            look(at),
            histograms={"latency_seconds": found},
            quantiles={"latency_seconds": {"max": 30.0 if at < 60 else 0.0007}},
        )
        for at, found in ((1, before), (59, before), (61, after), (119, after), (121, after))
    ]
    first, second = rows_of(*looks)
    assert first.values["latency_max"] is None  # before it nothing is known
    assert second.values["latency_max"] == 0.0007


def test_topics_that_rest_have_no_row_and_most_share_one() -> None:
    def topics(moved: int) -> tuple[TopicFigures, ...]:
        return tuple(
            TopicFigures(f"t{n:04}", None, "copying", "", {"records_total": moved if n else 0.0})
            for n in range(MOST_TOPICS + 3)
        )

    rows = rows_of(
        replace(look(1), topics=topics(0)), replace(look(50), topics=topics(7)), look(60)
    )
    names = [row.topic for row in rows]
    assert (names[0], len(names)) == (None, MOST_TOPICS + 2)
    assert "t0000" not in names
    assert (names[-1], rows[-1].values["records"]) == (OTHERS, 14)


def test_a_drain_of_seconds_leaves_no_row_and_one_of_a_minute_does() -> None:
    short, long = Minutes(), Minutes()
    for at in (1, 8):
        short.add(look(at, records_total=at))
    for at in (1, 40):
        long.add(look(at, records_total=at))
    assert short.end() == []
    assert [row.values["records"] for row in long.end()] == [39]
