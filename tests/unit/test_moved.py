"""Positions that an operator moves: used once, from where they were seen, past no record."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replication.model import Position, TopicPartition
from replication.offsets.guard import CountAhead, MatchTail, Refusal, Resume, StartFresh
from replication.offsets.map import Exact, NoAnswer, OffsetMap
from replication.offsets.moved import MovedPosition, MoveTo, Moving, OwnPosition, move
from replication.offsets.runs import OffsetRun, anchor
from replication.positions.survey import Counted, LogSpans, move_all, own_position
from replication.topics.topic_plan import TopicPlan

TP, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)
SEEN = Position(100, 60)
SOURCE = (40, 120)


def moved(to: MoveTo, before: OwnPosition | None = None, log_end: int = 60) -> MovedPosition:
    before = before or OwnPosition(SEEN)
    found = move(Moving(to, before.seen, "s1"), before, SOURCE, log_end, "s1")
    assert isinstance(found, MovedPosition)
    return found


# What is asked, where it goes on, what is left out, what is copied again, what the map states.
MOVES = [
    (40, 40, None, (40, 100), [anchor(Position(40, 60))]),
    ("earliest", 40, None, (40, 100), [anchor(Position(40, 60))]),
    (99, 99, None, (99, 100), [anchor(Position(99, 60))]),
    (100, 100, None, None, [anchor(Position(100, 60))]),
    (101, 101, (100, 101), None, [OffsetRun(100, 101, 60, 0)]),
    (120, 120, (100, 120), None, [OffsetRun(100, 120, 60, 0)]),
]


@pytest.mark.parametrize(("to", "at", "left_out", "again", "runs"), MOVES)
def test_a_move_leaves_out_or_repeats_what_lies_between(
    to: MoveTo,
    at: int,
    left_out: tuple[int, int] | None,
    again: tuple[int, int] | None,
    runs: list[OffsetRun],
) -> None:
    found = moved(to)

    assert found.position == Position(at, 60)
    assert (found.left_out, found.copied_again) == (left_out, again)
    assert found.new_runs() == runs
    event = found.event(TP)
    columns = event.details["offset_from"], event.details["offset_until"]
    assert columns == (left_out or again or (at, at))
    assert (event.kind, event.reaction, event.cause) == ("jumped", "accept", "moved")


def test_nothing_is_repeated_of_a_partition_that_has_no_position_yet() -> None:
    new = OwnPosition(Position(100, 0), is_new=True)

    assert (moved(40, new, 0).copied_again, moved(40, new, 0).left_out) == (None, None)
    assert moved(110, new, 0).left_out == (100, 110)
    assert moved(110, new, 0).new_runs() == [anchor(Position(110, 0))]


def test_what_was_counted_behind_the_map_enters_it_before_the_move() -> None:
    counted = own_position(Counted(OffsetRun(90, 100, 50, 10)))

    assert counted == OwnPosition(SEEN, runs=(OffsetRun(90, 100, 50, 10),))
    assert moved(120, counted).new_runs() == [
        OffsetRun(90, 100, 50, 10),
        OffsetRun(100, 120, 60, 0),
    ]


def test_what_was_counted_in_pieces_enters_it_in_pieces() -> None:
    parts = (OffsetRun(80, 90, 45, 5), OffsetRun(90, 100, 50, 10))

    assert own_position(Counted(OffsetRun(80, 100, 45, 15), parts)) == OwnPosition(SEEN, runs=parts)


def test_in_a_shared_topic_copies_go_on_at_its_end() -> None:
    assert moved(120, log_end=75).new_runs() == [anchor(Position(120, 75))]


UNUSED = [
    (Position(99, 60), 110, "s1", "has moved since"),
    (Position(100, 59), 110, "s1", "source offset 100, target offset 59"),
    (None, 110, "s1", "it had no position yet, and it is at source offset 100"),
    (SEEN, 110, "s0", "created again"),
    (SEEN, 121, "s1", "offset 121, but the source has offsets 40 to 120"),
    (SEEN, 39, "s1", "offset 39, but the source has offsets 40 to 120"),
]


@pytest.mark.parametrize(("seen", "to", "topic_id", "why"), UNUSED)
def test_a_move_counts_only_while_everything_is_as_the_operator_saw_it(
    seen: Position | None, to: int, topic_id: str, why: str
) -> None:
    found = move(Moving(to, seen, topic_id), OwnPosition(SEEN), SOURCE, 60, "s1")

    assert isinstance(found, str)
    assert why in found


def test_a_move_that_a_killed_process_has_used_is_done() -> None:
    after = OwnPosition(moved(40).position)

    assert move(Moving(40, SEEN, "s1"), after, SOURCE, 60, "s1") is None


@given(
    at=st.integers(0, 50),
    to=st.integers(0, 50),
    copied=st.integers(0, 30),
)
def test_after_a_move_and_its_copies_no_group_is_sent_past_a_record(
    at: int, to: int, copied: int
) -> None:
    """A dense source: offsets up to *at* are on the target, then *copied* ones from *to* on."""
    runs = [OffsetRun(0, at, 0, at)] if at else [anchor(Position(0, 0))]
    found = move(Moving(to, Position(at, at), "s"), OwnPosition(Position(at, at)), (0, 50), at, "s")
    assert isinstance(found, MovedPosition)
    end = min(50, to + copied)
    target = [*range(at), *range(to, end)]
    offsets = OffsetMap([*runs, *found.new_runs(), OffsetRun(to, end, at, end - to)])

    for committed in range(51):
        answer = offsets.translate(committed)
        if not isinstance(answer, NoAnswer):
            unread = {record for record in target if record >= committed}
            assert unread <= set(target[answer.offset :]), committed
    if at < to:
        assert offsets.translate(at) == Exact(at)


@given(at=st.integers(0, 9), to=st.integers(0, 9), times=st.integers(1, 4))
def test_a_move_is_used_once_however_often_its_file_is_read(at: int, to: int, times: int) -> None:
    asked, now, jumps = Moving(to, Position(at, at), "s"), OwnPosition(Position(at, at)), 0
    for _ in range(times):
        found = move(asked, now, (0, 9), at, "s")
        if isinstance(found, MovedPosition):
            jumps += found.position.upstream != at
            now = OwnPosition(found.position)

    assert jumps == (at != to)


def plan(source_id: str = "s1") -> TopicPlan:
    return TopicPlan({"t": "A.t"}, (), {}, (TP, OTHER), {"t": source_id}, {"A.t": "r1"})


SPANS = LogSpans({TP: 40, OTHER: 0}, {TP: 120, OTHER: 9}, {TP: 60, OTHER: 0})


def test_only_partitions_that_go_on_by_themselves_are_moved() -> None:
    found: dict[TopicPartition, Resume | StartFresh] = {
        TP: Resume(SEEN),
        OTHER: StartFresh(Position(0, 0)),
    }
    moves = {TP: Moving("earliest", SEEN, "s1"), OTHER: Moving(5, None, "s1")}

    done, unused = move_all(plan(), SPANS, {**found}, moves)

    assert {tp: at.position for tp, at in done.items()} == {
        TP: Position(40, 60),
        OTHER: Position(5, 0),
    }
    assert unused == {}


DOUBTS = [
    Refusal("unmatched", "", 40, 120, 60, None, 120, 40),
    CountAhead(Position(90, 50), 10),
    MatchTail(SEEN),
]


@pytest.mark.parametrize("doubt", DOUBTS)
def test_a_partition_in_doubt_is_not_moved(doubt: Refusal | CountAhead | MatchTail) -> None:
    assert own_position(doubt) is None
    done, unused = move_all(plan(), SPANS, {TP: doubt}, {TP: Moving(40, SEEN, "s1")})

    assert done == {}
    assert list(unused) == [TP]


def test_a_move_waits_while_its_topic_is_set_aside_but_not_for_another_topic() -> None:
    waiting = move_all(plan(), SPANS, {}, {TP: Moving(40, SEEN, "s1")})
    void = move_all(plan("s2"), SPANS, {}, {TP: Moving(40, SEEN, "s1")})
    absent = move_all(plan(), SPANS, {}, {TopicPartition("u", 0): Moving(40, SEEN, "s1")})

    assert waiting == absent == ({}, {})
    assert void[1].keys() == {TP}
