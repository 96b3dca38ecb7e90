"""What the observer makes of boards, reports and rounds."""

import re
import shlex
from collections import Counter
from dataclasses import replace

import pytest

from replication.errors import ClusterError, FlowError, ReplicationError
from replication.figures.histogram import Recent
from replication.figures.lag import Lag, Skew
from replication.figures.observation import Code, GroupFigures, TopicFigures, TopicState
from replication.flows.flow_metrics import (
    Copying,
    Figures,
    FlowMetrics,
    GroupRound,
    TopicOrPartition,
)
from replication.flows.observe.conditions import Conditions, FlowFacts
from replication.flows.observe.flow_observer import (
    STALLED_SECONDS,
    GroupLooks,
    Partitions,
    Standing,
    TopicLooks,
    lag_of,
    of_heartbeats,
)
from replication.flows.publisher import STATES
from replication.flows.replicate.choose import RefusedTopicError, RejectedTopicError
from replication.groups.positions import GroupPosition
from replication.model import Committed, Flow, NewEvent, Position, TopicPartition
from replication.offsets.map import Bounded, Exact, NoAnswer
from replication.offsets.pending import Copied
from replication.offsets.runs import OffsetRun
from replication.spark.acknowledged import parse
from replication.state.tables import Counts, EventCounts
from replication.topics.topic_plan import TopicPlan

FLOW = Flow("A", "B")
COMMAND = re.compile(r"python -m replication |(\./)?spark-submit(\.sh)? |kafka-|chronyc ")
TP, OTHER = TopicPartition("t", 0), TopicPartition("u", 1)


def begun() -> FlowMetrics:
    """A board on which both partitions are copied from offset 0."""
    metrics, topics = FlowMetrics(), {"t": "A.t", "u": "A.u"}
    starts = {TP: Position(0, 0), OTHER: Position(0, 0)}
    plan = TopicPlan(topics, (), {}, (TP, OTHER), {"t": "1", "u": "2"}, {})
    metrics.want(plan, ())
    metrics.begin(1, "microbatch", plan, starts)
    return metrics


def test_what_executors_report_is_read_as_the_driver_writes_it() -> None:
    found = parse(
        "executors\t2\t1500\t30\t8\t9\nthrottled\t1250\ta-b\n"
        "transfer\t2500,1900,0:3,2:1\nlatency\tA.t\t900,900,0:1\n"
    )

    assert (found.executors, found.silent_seconds, found.in_flight, found.tasks) == (2, 1.5, 30, 8)
    transfer = found.transfer
    assert (transfer.count, transfer.sum, transfer.longest) == (4, 0.0025, 0.0019)
    assert (found.transfer.counts[:3], found.latencies["A.t"].count) == ((3, 3, 4), 1)
    assert found.throttles == {"a-b": 1.25}


def test_a_partition_that_stands_before_records_is_stalled() -> None:
    metrics, partitions = begun(), Partitions()
    partitions.known(metrics.look())
    partitions.saw(100.0, {TP: 0, OTHER: 0})
    states = []
    for now in (101.0, 106.0, 107.0 + STALLED_SECONDS):
        states.append([one.state for one in partitions.look(now, metrics.look(), {OTHER})])
        partitions.saw(now + 1, {TP: 5, OTHER: 0})

    assert [own for own, _ in states] == ["copying", "lagging", "stalled"]
    assert {other for _, other in states} == {"leaderless"}


def paused_looks(paused: set[TopicPartition]) -> list[list[Standing]]:
    """Two looks at what is copied but for *paused*, between which both logs grow for long."""
    metrics, partitions = begun(), Partitions()
    partitions.known(metrics.look())
    partitions.saw(100.0, {TP: 0, OTHER: 0})
    metrics.pause(paused, {"t": "A.t"})
    looks = []
    for now in (101.0, 106.0, 107.0 + STALLED_SECONDS):
        looks.append(partitions.look(now, metrics.look(), {TP}))
        partitions.saw(now + 1, {TP: 5, OTHER: 5})
    return looks[1:]


def test_a_paused_partition_is_neither_lagging_nor_stalled_nor_leaderless_but_its_lag_counts() -> (
    None
):
    looks = paused_looks({TP})

    assert [[one.state for one in look] for look in looks] == [
        ["paused", "lagging"],
        ["paused", "stalled"],
    ]
    lags = [look[0].lag for look in looks]
    assert [lag and lag.records for lag in lags] == [5, 5]


@pytest.mark.parametrize(("is_paused", "state"), [(True, "paused"), (False, "waiting")])
def test_a_flow_of_which_all_is_paused_is_paused_and_does_not_wait(
    is_paused: bool,  # noqa: FBT001 - a parameter of the test
    state: str,
) -> None:
    metrics = FlowMetrics()
    metrics.have_nothing(is_paused=is_paused)

    assert STATES[metrics.look().state.activity] == state


def test_what_holds_a_flow_is_seen_wherever_its_word_is_read() -> None:
    metrics = FlowMetrics()
    metrics.have_nothing(is_paused=True, held=("dr-1", "dr-2"))
    assert metrics.look().state.reason == "held by dr-1, dr-2"

    metrics.have_nothing(is_paused=True)
    assert metrics.look().state.reason == ""


def test_a_resumed_partition_has_as_long_as_any_other_until_it_is_stalled() -> None:
    metrics, partitions = begun(), Partitions()
    partitions.known(metrics.look())
    partitions.saw(100.0, {TP: 5, OTHER: 0})
    partitions.look(101.0, metrics.look(), ())
    metrics.pause({TP}, {"t": "A.t"})
    partitions.look(110.0, metrics.look(), ())
    metrics.pause((), {})
    late = 111.0 + STALLED_SECONDS

    assert partitions.look(late, metrics.look(), ())[0].state == "lagging"


def test_a_paused_topic_stays_known_when_the_others_get_new_queries_or_none() -> None:
    metrics, partitions, topics = begun(), Partitions(), TopicLooks()
    partitions.known(metrics.look())
    partitions.saw(100.0, {TP: 5, OTHER: 0})
    metrics.end()
    metrics.pause({TP}, {"t": "A.t"})
    plan = TopicPlan({"u": "A.u"}, (), {}, (OTHER,), {"u": "2"}, {})
    metrics.want(replace(plan, paused=(TP,)), ())
    metrics.begin(2, "microbatch", plan, {OTHER: Position(0, 0)})
    look = metrics.look()

    own, other = topics.look(101.0, look, partitions.look(101.0, look, ()), None)
    assert (own.topic, own.remote, own.state, other.state) == ("t", "A.t", "paused", "copying")
    assert own.figures["lag_records"] == 5


def test_a_first_backlog_is_catching_up_while_it_shrinks_and_late_for_nobody() -> None:
    metrics, partitions = begun(), Partitions(30.0)
    partitions.known(metrics.look())
    partitions.saw(0.0, {TP: 1000, OTHER: 0})
    partitions.read(TP, 0, -9000.0)

    def look(now: float, copied: int) -> tuple[str, float | None]:
        metrics.add_single(TP, Position(copied, copied))
        found = metrics.look()
        own = partitions.look(now, found, ())
        topic, _ = TopicLooks().look(now, found, own, None)
        return topic.state, topic.figures.get("unpaused_lag_seconds")

    assert [look(now, now)[0] for now in (1, 200, 319)] == ["catching-up"] * 3
    assert look(320, 320) == ("catching-up", None)
    partitions.saw(330.0, {TP: 2000, OTHER: 0})  # it grows faster than it is copied
    assert [look(now, now)[0] for now in (330, 440)] == ["catching-up", "lagging"]
    assert look(451, 1990)[0] == "catching-up"
    assert look(452, 2000)[0] == "copying"
    partitions.saw(460.0, {TP: 3000, OTHER: 0})
    assert look(520, 2500)[0] == "lagging"  # it had caught up


def test_what_an_operator_has_moved_back_is_catching_up_once_more() -> None:
    metrics, partitions = begun(), Partitions(30.0)
    partitions.known(metrics.look())

    def look(now: float, position: int) -> str:
        partitions.saw(now, {TP: 1000, OTHER: 0})
        metrics.add_single(TP, Position(position, position))
        return partitions.look(now, metrics.look(), ())[0].state

    assert [look(0.0, 0), look(1.0, 990), look(2.0, 1000)] == ["catching-up"] * 2 + ["copying"]
    metrics.repeat({TP: 90}, 2)  # before anything runs
    assert partitions.look(80.0, metrics.look(), ())[0].state == "catching-up"
    partitions.read(TP, 100, -9000.0)
    assert [look(now, int(now)) for now in (100, 200, 300)] == ["catching-up"] * 3
    metrics.repeat({TP: 40}, 3)  # and once more, before it has caught up
    partitions.read(TP, 50, -9000.0)
    assert [look(now, int(now) - 350) for now in (400, 500, 600)] == ["catching-up"] * 3
    assert [look(700.0, 1000), look(800.0, 1000)] == ["copying"] * 2


def test_a_partition_that_goes_on_where_it_was_is_late_from_the_start() -> None:
    metrics, partitions = FlowMetrics(), Partitions()
    plan = TopicPlan({"t": "A.t"}, (), {}, (TP,), {"t": "1"}, {})
    metrics.want(plan, ())
    metrics.begin(1, "microbatch", plan, {TP: Position(7, 5)})
    partitions.known(metrics.look())
    partitions.saw(0.0, {TP: 1000})

    assert partitions.look(1.0, metrics.look(), ())[0].state == "lagging"


def test_of_a_deleted_topic_no_lag_is_known_and_it_is_not_copied() -> None:
    metrics, partitions, topics = begun(), Partitions(), TopicLooks()
    partitions.known(metrics.look())
    partitions.saw(100.0, {TP: 0, OTHER: 0})
    metrics.add_single(TP, Position(0, 0))
    look = metrics.look()
    standings = partitions.look(101.0, look, ())
    topics.look(101.0, look, standings, None)
    metrics.lose({"t": ("t was deleted on A", "events FILE"), "v": ("v too", "")})
    look = metrics.look()
    own, other, never = topics.look(102.0, look, partitions.look(102.0, look, ()), None)
    metrics.find_again({"t", "v"})

    assert (own.remote, own.state, own.reason) == ("A.t", "deleted", "t was deleted on A")
    assert not {"lag_records", "lag_seconds"} & own.figures.keys()
    assert (own.figures["records_total"], other.state, never.state) == (1, "copying", "deleted")
    look = metrics.look()
    again, _ = topics.look(103.0, look, partitions.look(103.0, look, ()), None)
    assert (again.state, again.reason, again.figures["lag_records"]) == ("copying", "", 0)


def test_a_topic_that_is_not_copied_any_more_is_not_shown_as_copied() -> None:
    metrics, partitions, topics = begun(), Partitions(), TopicLooks()
    metrics.add_single(TP, Position(1, 1))
    metrics.end()
    plan = TopicPlan({"u": "A.u"}, (), {}, (OTHER,), {"u": "2"}, {})
    metrics.want(plan, ())
    metrics.begin(2, "microbatch", plan, {OTHER: Position(0, 0)})
    look = metrics.look()

    (other,) = topics.look(101.0, look, partitions.look(101.0, look, ()), None)
    assert (other.topic, look.copying.records["t"]) == ("u", 1)


def test_a_process_that_starts_with_a_pause_knows_the_lag_by_the_offset_map() -> None:
    metrics, partitions = FlowMetrics(), Partitions()
    metrics.place({TP: 3})
    metrics.want(TopicPlan({}, (), {}, (), {}, paused=(TP, OTHER)), ())
    metrics.pause((TP, OTHER), {"t": "A.t", "u": "A.u"})
    partitions.known(metrics.look())
    partitions.saw(100.0, {TP: 10, OTHER: 4})

    own, never = partitions.look(101.0, metrics.look(), ())
    assert (own.state, own.position, own.lag and own.lag.records) == ("paused", 3, 7)
    assert (never.state, never.lag) == ("paused", None)
    assert never.figures().figures == {"source_log_end": 4, "lag_unknown_partitions": 1}
    assert list(partitions.of_unknown_age(metrics.look())) == [(TP, 3, 10)]
    metrics.place({OTHER: 0})
    partitions.look(101.0, metrics.look(), ())
    metrics.set_aside({"t": ClusterError("no right to read")})
    assert list(partitions.of_unknown_age(metrics.look())) == [(OTHER, 0, 4), (TP, 3, 10)]
    metrics.take_back({"t"})

    metrics.want(TopicPlan({}, (), {}, (), {}), ())  # an exclude takes the topics out
    assert partitions.look(102.0, metrics.look(), ()) == []


def test_the_lag_of_what_is_paused_counts_for_no_alert_and_no_condition() -> None:
    (_, look) = paused_looks({TP})
    metrics = begun().look()

    own, other = TopicLooks().look(300.0, metrics, look, None)
    assert own.figures["lag_seconds"] > STALLED_SECONDS
    assert "unpaused_lag_seconds" not in own.figures
    assert other.figures["unpaused_lag_seconds"] == other.figures["lag_seconds"]
    late = {"lag_seconds": 900.0, "unpaused_lag_seconds": 2.0}
    assert Conditions().look(observer(figures=late, topics=(own,))) == ()


def test_what_is_set_aside_counts_in_the_lag_of_all_by_its_last_position() -> None:
    metrics, partitions, topics = begun(), Partitions(), TopicLooks()
    metrics.set_aside({"t": RefusedTopicError("refused", "")})
    metrics.end()  # the generation that had it; the next one is without it
    plan = TopicPlan({"u": "A.u"}, (), {}, (OTHER,), {"u": "2"}, {})
    metrics.want(plan, {"t"})
    metrics.begin(2, "microbatch", plan, {OTHER: Position(0, 0)})
    look = metrics.look()
    partitions.known(look)
    partitions.saw(100.0, {TP: 0, OTHER: 0})
    partitions.saw(105.0, {TP: 3000, OTHER: 0})
    standings = partitions.look(106.0, look, ())

    own, other = topics.look(106.0, look, standings, None)
    assert [one.state for one in standings] == ["set-aside", "copying"]
    assert (own.state, own.figures["lag_records"], own.figures["rpo_seconds"]) == (
        "set-aside",
        3000,
        6.0,
    )
    assert other.figures["lag_records"] == 0
    assert lag_of(standings) == {
        "lag_records": 3000,
        "rpo_records": 3000,
        "lag_seconds": 6.0,
        "rpo_seconds": 6.0,
        "unpaused_lag_seconds": 6.0,
        "lag_unknown_partitions": 0,
    }


def standing(records: int | None, state: TopicState = "set-aside") -> Standing:
    """A partition with so many records before it, each a second old; None is unknown."""
    lag = None if records is None else Lag(records, float(records))
    return Standing(TP, 0, records, lag, state, None, is_known=records is not None)


@pytest.mark.parametrize(
    ("standings", "bare", "lag", "unpaused"),
    [
        ([standing(0)], 0, 0, 0.0),
        ([standing(None), standing(0)], 0, None, None),
        ([standing(None), standing(7)], 0, 7, 7.0),
        ([standing(0)], 1, None, None),  # a topic that nothing at all is known of
        ([standing(None, "paused"), standing(0)], 0, None, 0.0),
        ([standing(7, "paused")], 0, 7, None),
        ([], 0, None, None),
    ],
)
def test_where_something_is_unknown_the_lag_is_at_least_the_rest_and_never_0(
    standings: list[Standing], bare: int, lag: int | None, unpaused: float | None
) -> None:
    found = lag_of(standings, bare)

    unknown = bare + sum(one.lag is None for one in standings)
    assert found.get("lag_unknown_partitions", 0) == unknown
    assert found.get("lag_records") == found.get("rpo_records") == lag
    assert found.get("lag_seconds") == found.get("rpo_seconds") == lag
    assert found.get("unpaused_lag_seconds") == unpaused


def test_an_end_that_two_looks_have_missed_is_unknown() -> None:
    metrics, partitions = begun(), Partitions()
    partitions.known(metrics.look())
    partitions.saw(100.0, {TP: 0, OTHER: 9})
    known = []
    for at in (105.0, 110.0):
        partitions.saw(at, {})  # the source does not answer
        known.append([one.is_known for one in partitions.look(at, metrics.look(), ())])
        partitions.read(OTHER, 0, 90.0)

    assert known == [[True, False], [False, False]]  # the age of what waits was not known at first
    found = lag_of(partitions.look(110.0, metrics.look(), ()))
    assert (found["lag_records"], found["lag_seconds"]) == (9, 20.0)
    assert found["lag_unknown_partitions"] == 2


def test_lag_goes_on_while_the_loop_does_not_run() -> None:
    metrics, partitions = begun(), Partitions()
    partitions.known(metrics.look())
    partitions.saw(100.0, {TP: 0, OTHER: 0})
    partitions.look(101.0, metrics.look(), ())
    metrics.end()
    partitions.saw(105.0, {TP: 7})

    lags = {one.tp: one.lag for one in partitions.look(130.0, metrics.look(), ())}
    assert lags == {TP: Lag(7, 30.0), OTHER: Lag(0, 0.0)}


def test_a_topic_without_a_known_end_has_no_lag() -> None:
    metrics, partitions, topics = begun(), Partitions(), TopicLooks()
    partitions.known(metrics.look())
    partitions.saw(100.0, {TP: 0})
    look = metrics.look()

    known, unknown = topics.look(101.0, look, partitions.look(101.0, look, ()), None)
    assert (known.figures["lag_records"], known.figures["lag_seconds"]) == (0, 0.0)
    assert "lag_records" not in unknown.figures


@pytest.mark.parametrize("news", ["record", "end", "pause", "leader", "set aside", "time"])
def test_what_is_at_rest_is_measured_again_when_something_happens(news: str) -> None:
    metrics, partitions, topics = begun(), Partitions(), TopicLooks()
    ends, leaderless, now = {TP: 0, OTHER: 0}, set[TopicPartition](), 100.0

    def look(seconds: float) -> tuple[TopicFigures, ...]:
        nonlocal now
        now += seconds
        partitions.known(metrics.look())
        partitions.saw(now, ends)
        found = metrics.look()
        standings = partitions.look(now, found, leaderless)
        return topics.look(now, found, standings, None)

    look(5)
    first, second = look(5), look(5)
    assert first[0] is second[0]
    if news == "record":
        ends[TP] = 1
        metrics.add({TP: [OffsetRun(0, 1, 0, 1)]})
    elif news == "end":
        ends[TP] = 1
    elif news == "pause":
        metrics.pause({TP}, {"t": "A.t"})
    elif news == "leader":
        leaderless.add(TP)
    elif news == "set aside":
        metrics.set_aside({"t": RefusedTopicError("refused", "")})
    own, other = look(5)

    figures = own.partitions[0].figures
    shown = {
        "record": own.figures["records_total"] == figures["position"] == 1,
        "end": (own.state, own.figures["lag_records"]) == ("lagging", 1),
        "pause": own.state == "paused",
        "leader": own.state == "leaderless",
        "set aside": own.state == "set-aside",
        "time": own is first[0],
    }
    assert [what for what, is_shown in shown.items() if is_shown] == [news]
    assert other is first[1]


def test_rates_are_of_the_last_minute() -> None:
    sums = Recent()
    assert sums.per_second(60) is None
    for second in range(0, 301, 5):
        sums.add(second, 10 * min(second, 240), 1000 * min(second, 240))

    assert sums.per_second(60) == (0.0, 0.0)
    assert sums.ratio() == 100


def test_bytes_of_the_records_give_the_lag_in_bytes() -> None:
    metrics, partitions, topics = begun(), Partitions(), TopicLooks()
    partitions.known(metrics.look())
    metrics.add({TP: [OffsetRun(0, 10, 0, 10)]})
    metrics.add_copied([(TP, Copied(500, 9, 99_000))])
    partitions.saw(100.0, {TP: 14, OTHER: 0})
    look = metrics.look()

    own, other = topics.look(101.0, look, partitions.look(101.0, look, ()), None)
    assert own.figures["lag_bytes"] == 4 * 50
    assert own.figures["copied_until_timestamp_seconds"] == 99
    assert own.figures["lag_seconds"] == 2.0
    assert (other.figures["lag_bytes"], other.figures["bytes_total"]) == (0, 0)


def test_a_group_waits_for_a_position_since_its_commit() -> None:
    groups = GroupLooks()
    found = [
        GroupPosition("g", TP, TP, Committed(5), Bounded(3, 2)),
        GroupPosition("g", OTHER, OTHER, Committed(9), NoAnswer("nothing replicated", None)),
        GroupPosition("h", TP, TP, Committed(7), Exact(7)),
    ]
    round_ = GroupRound(100.0, tuple(found), {TP: 10, OTHER: 12})
    lags = {TP: Lag(4, 2.5), OTHER: Lag(1, 0.5)}
    stands = {tp: Standing(tp, 0, 0, lag, "copying", None) for tp, lag in lags.items()}
    groups.look(101.0, round_, stands)
    g, h = groups.look(160.0, replace(round_, at=150.0), stands)

    assert g.answers == {"bounded": 1, "none": 1}
    assert g.figures == {
        "group_lag_records": 8,
        "group_position_age_seconds": 60.0,
        "group_reread_records": 2,
        "group_unreplicated_records": 5,
        "lag_unknown_partitions": 0,
        "rpo_records": 5,
        "rpo_seconds": 2.5,
    }
    assert (h.figures["group_position_age_seconds"], h.figures["group_lag_records"]) == (0.0, 3)

    first = {**stands, OTHER: replace(stands[OTHER], state="catching-up")}
    g, h = groups.look(500.0, replace(round_, at=490.0), first)
    assert "group_position_age_seconds" not in g.figures  # its first backlog is on its way
    assert h.figures["group_position_age_seconds"] == 0.0
    g, _ = groups.look(501.0, replace(round_, at=490.0), stands)
    assert g.figures["group_position_age_seconds"] == 11.0


def test_offsets_given_up_are_counted_by_cause() -> None:
    counts = Counts()
    span: dict[str, str | int] = {"topic": "t", "offset_from": 3, "offset_until": 10}
    counts.add_event(FLOW, NewEvent("jumped", "...", "skip", span, "records-expired"))
    counts.add_event(FLOW, NewEvent("waiting", "...", "retry"))

    found = counts.events(FLOW)
    assert (found.kinds, found.given_up) == ({"jumped": 1, "waiting": 1}, {"records-expired": 7})
    assert [event.kind for _, event in found.last] == ["jumped", "waiting"]


def test_a_decision_whose_offsets_nobody_can_count_is_one_too() -> None:
    counts = Counts()
    details: dict[str, str | int] = {"offset_from": 7, "offset_until": 7}
    counts.add_event(FLOW, NewEvent("jumped", "", "accept", details))
    assert counts.events(FLOW).given_up_at == {}, "it gives nothing up"

    counts.add_event(FLOW, NewEvent("jumped", "", "accept", details, "source-recreated"))
    assert counts.events(FLOW).given_up_at.keys() == {"source-recreated"}


def test_records_that_an_operator_has_rewound_are_no_condition() -> None:
    moved = EventCounts(given_up=Counter({"moved": 7}), given_up_at={"moved": 1000.0})
    decided = EventCounts(given_up_at={"source-recreated": 1000.0, "moved": 1000.0})
    assert Conditions().look(observer(events=moved)) == ()
    (condition,) = Conditions().look(observer(events=decided))
    assert condition.text.startswith("records that nobody can count were lost")


def observer(at: float = 1000.0, **changes: object) -> FlowFacts:
    """A healthy look, but for *changes*."""
    metrics = Figures(at, FlowMetrics().look().state, Copying(), {}, GroupRound())
    healthy = FlowFacts(
        FLOW,
        at,
        metrics,
        {},
        (),
        (),
        {},
        Counts().events(FLOW),
        {},
        30,
        is_reported=True,
        restarts=0,
    )
    return replace(healthy, **changes)  # type: ignore[arg-type]


def stalled(at: float) -> Figures:
    """A board on which the topic t is set aside."""
    refused = RefusedTopicError("refused", "python -m replication accept FILE --topic t")
    return Figures(at, FlowMetrics().look().state, Copying(), {"t": refused}, GroupRound())


LEFT_OUT = "t was deleted on A", "python -m replication topics FILE --exclude t"


@pytest.mark.parametrize(
    ("found", "code"),
    [
        (observer(metrics=stalled(1000.0)), "set-aside"),
        (observer(topics=(TopicFigures("t", "A.t", "stalled", "", {}),)), "stalled"),
        (observer(figures={"unpaused_lag_seconds": 31.0}), "lag-above-slo"),
        (observer(figures={"map_age_seconds": 700.0}), "map-old"),
        (observer(silent={"A": "no route"}), "cluster-unreachable"),
        (observer(is_reported=False), "records-not-reported"),
        (
            observer(metrics=replace(stalled(1000.0), aside={}, gone={"t": LEFT_OUT})),
            "topic-gone",
        ),
        (observer(restarts=4), "restarting"),
        (observer(skews={"B": Skew(-3600.0, 0.2)}), "clock-skew"),
        (observer(ahead={"t": 3600.0}), "clock-skew"),
        (observer(heartbeat_age=61.0), "heartbeats-missing"),
        (
            observer(keeps_less={"t": ("A.t on B deletes what t on A keeps", "kafka-configs")}),
            "target-keeps-less",
        ),
        (observer(groups=(GroupFigures("g", {"group_blocked": 1.0}, {}),)), "group-blocked"),
        (observer(events=EventCounts(letters=1)), "dead-letters"),
        (
            observer(
                topics=(
                    TopicFigures("t", "A.t", "lagging", "", {"retention_headroom_seconds": 60.0}),
                )
            ),
            "retention-near",
        ),
        (
            observer(groups=(GroupFigures("g", {"group_position_age_seconds": 400.0}, {}),)),
            "group-without-position",
        ),
    ],
)
def test_a_condition_holds_from_its_first_look_to_its_last(found: FlowFacts, code: Code) -> None:
    conditions = Conditions()
    assert conditions.look(observer()) == ()
    (first,) = conditions.look(found)
    (second,) = conditions.look(replace(found, at=found.at + 5))

    assert (first.code, first.since, second.since) == (code, found.at, found.at)
    assert first.text
    assert COMMAND.match(first.next_step)
    assert "replication status" not in first.next_step, "which has just been typed"
    assert conditions.look(observer()) == ()


def test_the_next_step_of_a_refused_topic_is_the_command_that_accepts_it() -> None:
    (condition,) = Conditions().look(observer(metrics=stalled(1000.0)))

    assert condition.next_step == "python -m replication accept FILE --topic t"
    assert condition.text == "refused"


def test_what_repeats_for_each_partition_is_said_once() -> None:
    error = ClusterError("no broker leads this partition")
    aside: dict[TopicOrPartition, ReplicationError] = {
        TopicPartition("t", number): error for number in range(12)
    }
    own = FlowError("t-0: too large\n    t-1: too large")
    own.partitions = 2
    metrics = replace(stalled(1.0), aside={**aside, "u": own})
    leaderless, failed = Conditions().look(observer(metrics=metrics))

    assert leaderless.text == "12 partitions: no broker leads this partition"
    assert leaderless.next_step == "python -m replication retry FILE --flow 'A->B' --topic t"
    rejected = replace(metrics, aside={"v": RejectedTopicError("denied")})
    (denied,) = Conditions().look(observer(metrics=rejected))
    assert denied.next_step == "python -m replication doctor FILE", "another try mends nothing"
    assert (failed.topic, failed.text) == ("u", "2 partitions: t-0: too large")


def test_of_thousands_of_topics_some_have_a_condition_each_and_the_others_one() -> None:
    names = [f"t{number:04}" for number in range(5000)]
    error = ClusterError("x" * 100_000)
    aside: dict[TopicOrPartition, ReplicationError] = dict.fromkeys(names, error)
    facts = observer(
        metrics=replace(stalled(1.0), aside=aside),
        topics=tuple(TopicFigures(name, None, "stalled", "", {}) for name in names),
        keeps_less=dict.fromkeys(names, ("less", "kafka-configs")),
    )
    found = Conditions().look(facts)

    assert Counter(one.code for one in found) == {
        "set-aside": 21, "stalled": 21, "target-keeps-less": 21
    }  # fmt: skip
    (rest,) = (one for one in found if one.topic is None and one.code == "stalled")
    assert rest.text.startswith("4980 more topics, such as t0020, t0021")
    assert rest.next_step == "python -m replication lag FILE --flow 'A->B' --top 5000"
    assert sum(len(one.text) + len(one.next_step) for one in found) < 50_000
    bad = [one.severity == "bad" for one in found]
    assert bad == sorted(bad, reverse=True), "the worst first"


@pytest.mark.parametrize(
    "found",
    [
        observer(topics=(TopicFigures("t", "A.t", "stalled", "", {}),)),
        observer(figures={"unpaused_lag_seconds": 31.0}),
    ],
    ids=["stalled", "lag"],
)
def test_a_slow_flow_names_the_quota_that_holds_it_back(found: FlowFacts) -> None:
    (free,) = Conditions().look(found)
    (held,) = Conditions().look(replace(found, throttles={"B": 1.25}))

    assert held.text == f"{free.text}; a quota of B makes each request wait for 1.2 s"
    assert held.next_step == "python -m replication doctor FILE"
    assert "quota" not in free.text + free.next_step


def test_a_condition_whose_figures_change_goes_on() -> None:
    conditions = Conditions()
    conditions.look(observer(skews={"A": Skew(5.0, 0.2), "B": Skew(-3600.0, 0.2)}))
    later = observer(1005.0, skews={"A": Skew(5.1, 0.2), "B": Skew(-3599.0, 0.2)}, jumped=3600.0)
    found = conditions.look(later)

    assert [one.since for one in found] == [1000.0, 1000.0]
    assert conditions.look(observer(1010.0, skews={"B": Skew(0.9, 0.0)})) == ()


def test_the_next_step_of_a_refusal_is_the_command_that_it_names() -> None:
    (condition,) = Conditions().look(observer(metrics=stalled(1.0)))

    assert condition.next_step.startswith("python -m replication accept FILE")
    assert condition.topic == "t"


def test_a_group_is_blocked_if_group_sync_left_it_alone() -> None:
    metrics = FlowMetrics()
    position = GroupPosition("g", TP, TP, Committed(7), Exact(7))
    metrics.end_round([position, replace(position, group="h")], {})

    def blocked() -> dict[str, float | None]:
        found = GroupLooks().look(0.0, metrics.look().round, {})
        return {one.group: one.figures.get("group_blocked") for one in found}

    assert blocked() == {"g": None, "h": None}  # nothing is synchronized
    metrics.note_blocked(["g"])
    assert blocked() == {"g": 1.0, "h": 0.0}


def test_a_command_for_groups_of_long_names_is_whole() -> None:
    groups = [GroupFigures(f"{number}" * 249, {"group_blocked": 1.0}, {}) for number in range(10)]
    (blocked,) = Conditions().look(observer(groups=tuple(groups)))
    *_, last = shlex.split(blocked.next_step)

    assert last in {group.group for group in groups}


def test_a_topic_that_goes_while_its_backlog_is_read_disturbs_nobody() -> None:
    metrics, partitions = begun(), Partitions()
    partitions.known(metrics.look())
    partitions.saw(100.0, {TP: 5, OTHER: 5})
    partitions.look(101.0, metrics.look(), ())
    backlog = partitions.of_unknown_age(metrics.look())
    next(backlog)
    metrics.want(TopicPlan({"t": "A.t"}, (), {}, (TP,), {"t": "1"}, {}), ())
    partitions.known(metrics.look())  # by the thread that glances

    assert list(backlog) == []
    partitions.read(OTHER, 0, 1.0)


def test_heartbeats_are_as_old_as_the_newest_that_was_copied() -> None:
    figures = {"copied_until_timestamp_seconds": 1000.0}
    topics = (
        TopicFigures("heartbeats", "A.heartbeats", "copying", "", figures, {"0.5": 0.004}),
        TopicFigures("t", "A.t", "copying", "", {"copied_until_timestamp_seconds": 2000.0}),
    )

    assert of_heartbeats(topics, "heartbeats") == {
        "heartbeat_timestamp_seconds": 1000.0,
        "heartbeat_latency_seconds": 0.004,
    }
    assert of_heartbeats(topics[1:], "heartbeats") == {}
    paused = replace(topics[0], state="paused")
    assert of_heartbeats([paused], "heartbeats") == {}
