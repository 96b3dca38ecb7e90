"""Clocks: a broker's against this machine's, and one that is set by an hour."""

import time
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replication.cli.status import clock
from replication.figures.histogram import Recent
from replication.figures.lag import (
    EARLIEST,
    LATEST,
    Skew,
    SkewMeter,
    jumped,
    skew_text,
    steady,
    utc,
    wall,
    worst,
)
from replication.figures.minutes import Minutes
from replication.figures.observation import Observation, Owner, seconds_of, text_of
from replication.figures.status_store import StatusEntry
from replication.flows.flow_metrics import FlowMetrics
from replication.flows.observe.flow_observer import AwaitedHeartbeats, Partitions
from replication.model import Flow, Position, TopicPartition
from replication.offsets.pending import Copied
from replication.serve.formats import moment
from replication.serve.snapshots import Memory
from replication.topics.topic_plan import TopicPlan

HOUR = 3600.0
TP = TopicPartition("t", 0)
FLOW = Flow("A", "B")

ways = st.tuples(st.floats(0, 5), st.floats(0, 5))  # there, and back
stamps = st.lists(ways, min_size=1, max_size=60)


@given(skew=st.floats(-7200, 7200), found=stamps)
def test_the_true_skew_is_always_within_the_margin(
    skew: float, found: list[tuple[float, float]]
) -> None:
    meter, now = SkewMeter(), 1_000_000.0
    for there, back in found:
        stamped_ms = int((now + there + skew) * 1000)
        meter.add(now, now + there + back, stamped_ms / 1000)
        known = meter.skew
        assert known is not None
        assert abs(known.seconds - skew) <= known.margin + 1e-6
        now += 10


@given(before=stamps, after=stamps, jump=st.sampled_from([-HOUR, HOUR]))
def test_a_clock_that_is_set_is_followed_at_its_first_stamp(
    before: list[tuple[float, float]], after: list[tuple[float, float]], jump: float
) -> None:
    meter, now = SkewMeter(), 1_000_000.0
    for there, back in before:
        meter.add(now, now + there + back, now + there)
    for there, back in after:
        meter.add(now, now + there + back, now + there + jump)
        known = meter.skew
        assert known is not None
        assert abs(known.seconds - jump) <= known.margin + 1e-6


def test_a_skew_is_large_only_if_it_is_certain() -> None:
    assert SkewMeter().skew is None
    assert not Skew(3.0, 2.5).is_large
    assert Skew(-3.0, 0.5).is_large
    assert worst([Skew(0.1, 0), Skew(-2.0, 0), Skew(1.0, 0)]) == Skew(-2.0, 0)
    assert worst([]) is None
    assert skew_text("B", Skew(-3.04, 0)) == "the clock of cluster B is 3.0 s behind this machine's"


@pytest.mark.parametrize("jump", [-HOUR, HOUR])
def test_a_clock_that_jumps_changes_no_duration(
    monkeypatch: pytest.MonkeyPatch, jump: float
) -> None:
    real, before = time.time, steady()
    monkeypatch.setattr(time, "time", lambda: real() + jump)

    assert 0 <= steady() - before < HOUR / 2
    assert jumped() == pytest.approx(jump, abs=60)
    assert wall(before) == pytest.approx(real() + jump, abs=60)


@pytest.mark.parametrize("jump", [-HOUR, HOUR])
def test_lag_and_its_growth_survive_a_clock_that_jumps(jump: float) -> None:
    """One record a second; the copy stands at 100, whose record came 1.5 s before the look."""
    metrics, partitions, rate = FlowMetrics(), Partitions(), Recent()
    plan = TopicPlan({"t": "A.t"}, (), {}, (TP,), {"t": "1"}, {})
    metrics.begin(1, "microbatch", plan, {TP: Position(100, 100)})
    metrics.want(plan, ())
    metrics.add_copied([(TP, Copied(10, 1_100_000, 1_100_000))])  # record 99 came at 1100
    partitions.known(metrics.look())
    partitions.saw(1101.5, {TP: 100})
    for at in range(1105, 1200, 5):
        partitions.saw(float(at), {TP: at - 1001})
        rate.add(at, at - 1001)
        since = jump if at >= 1150 else 0.0
        (standing,) = partitions.look(at + 0.5, metrics.look(), (), since)
        lag = standing.lag
        assert lag is not None
        assert lag.seconds is not None
        age = at + 0.5 - 1101.0
        assert age - 0.5 <= lag.seconds <= age + 5
    assert rate.per_second(60) == pytest.approx((1.0, 0.0))


def look(at: float, measured: float, records: float) -> Observation:
    """A look of an owner, by both of its clocks."""
    owner = Owner("host", 1, 0.0)
    figures = {"records_total": records}
    return Observation(FLOW, at, "running", 0.0, owner=owner, figures=figures, measured=measured)


@pytest.mark.parametrize("jump", [-HOUR, HOUR])
def test_the_history_keeps_every_record_and_second_once(jump: float) -> None:
    minutes, rows = Minutes(), []
    for second in range(0, 600, 5):
        at = 600_000 + second + (jump if second >= 300 else 0)
        rows += minutes.add(look(at, 50_000 + second, 10.0 * second))
    rows += minutes.end()

    assert sum(row.values["records"] or 0 for row in rows) == 10 * 595
    assert sum(row.seconds for row in rows) == 595
    assert all(0 < row.seconds <= 65 for row in rows)


def test_serve_remembers_an_owner_whose_clock_was_set_back() -> None:
    memory, now = Memory(), time.time()
    for at in (now - 60, now - 55, now - 1000, now - 995, now - 995):
        memory.add(look(at, 0.0, 1.0))

    assert [at for at, _ in memory.points("lag_seconds", None, 0.0)] == [now - 1000, now - 995]


def test_heartbeats_are_late_if_they_are_awaited_and_do_not_come() -> None:
    nobody = AwaitedHeartbeats(None)
    assert nobody.look(0.0, None, is_copied=True) is None
    assert nobody.look(500.0, None, is_copied=True) is None
    assert nobody.look(505.0, 504.0, is_copied=True) is None  # another machine emits them
    assert nobody.look(570.0, 504.0, is_copied=True) == 65.0  # and does so no more
    assert nobody.look(575.0, 574.0, is_copied=True) is None

    ours = AwaitedHeartbeats(30.0)
    assert ours.look(0.0, None, is_copied=True) is None
    assert ours.look(90.0, None, is_copied=True) is None  # the third is just due
    assert ours.look(91.0, None, is_copied=True) == 91.0
    assert ours.look(95.0, None, is_copied=False) is None
    assert ours.look(100.0, -1000.0, is_copied=True) is None  # they count from the first look


def test_a_word_knows_how_long_it_may_be_the_last() -> None:
    word = StatusEntry(look(0.0, 0.0, 1.0), 1, "member", 5.0, 0.0)
    assert (word.patience, replace(word, interval=1.0).patience) == (20.0, 8.0)


# --- times that others have chosen ------------------------------------------------------------


@pytest.mark.parametrize("seconds", [2.0**63, 1.8e12, float("inf"), float("nan")])
def test_a_time_that_no_datetime_holds_is_the_latest_one(seconds: float) -> None:
    assert utc(seconds) == LATEST
    assert text_of(seconds) == "9999-12-31T00:00:00.000Z"
    assert moment(seconds) == "9999-12-31 00:00:00"
    assert clock(seconds) == "9999-12-31T00:00:00+00:00"


@pytest.mark.parametrize("seconds", [-(2.0**63), -1e12, float("-inf")])
def test_a_time_before_all_of_them_is_the_earliest_one(seconds: float) -> None:
    assert utc(seconds) == EARLIEST
    assert seconds_of(text_of(seconds)) == -62135510400


@given(st.integers(), st.integers(-23, 23))
def test_every_time_is_one_in_each_zone(ms: int, hours: int) -> None:
    found = utc(ms / 1000)

    assert found.astimezone(timezone(timedelta(hours=hours))) == found


def test_a_time_is_exact_to_the_millisecond() -> None:
    assert utc(-0.001) == datetime(1969, 12, 31, 23, 59, 59, 999_000, timezone.utc)
    assert utc(1_795_863_206.489) == datetime(2026, 11, 28, 10, 53, 26, 489_000, timezone.utc)


def test_nothing_else_makes_a_time_of_a_number() -> None:
    product = Path(__file__).resolve().parents[2] / "replication"

    ways = ("fromtimestamp(", "timedelta(milliseconds=round")
    found = {
        str(file.relative_to(product))
        for file in product.rglob("*.py")
        if any(way in file.read_text() for way in ways)
    }

    assert found == {"figures/lag.py"}
