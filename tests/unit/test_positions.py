"""Where a partition goes on: a table of offsets and the decision for each."""

import pytest

from replication.model import Position, Reset, TopicPartition
from replication.offsets.resume import (
    CountAhead,
    Decision,
    MatchTail,
    Problem,
    Resume,
    StartFresh,
    plan_positions,
)

TP = TopicPartition("orders", 0)
ANCHOR = Position(upstream=100, downstream=40)


def decide(
    *,
    anchor: Position | None = ANCHOR,
    log_end: int | None = 40,
    earliest: int | None = 0,
    end: int | None = 150,
    reset: Reset = "earliest",
) -> Decision:
    def known(offset: int | None) -> dict[TopicPartition, int]:
        return {} if offset is None else {TP: offset}

    anchors = {} if anchor is None else {TP: anchor}
    decided = plan_positions([TP], anchors, known(log_end), known(earliest), known(end), reset)
    assert list(decided) == [TP]
    return decided[TP]


@pytest.mark.parametrize(
    ("decision", "expected"),
    [
        pytest.param(decide(), Resume(ANCHOR), id="the target ends where the books do"),
        pytest.param(decide(earliest=100), Resume(ANCHOR), id="the next record is the first left"),
        pytest.param(decide(end=100), Resume(ANCHOR), id="nothing new on the source"),
        pytest.param(decide(log_end=41), CountAhead(ANCHOR, 1), id="one record beyond the books"),
        pytest.param(decide(log_end=90), CountAhead(ANCHOR, 50), id="all of the source is there"),
    ],
)
def test_with_books(decision: Decision, expected: Decision) -> None:
    assert decision == expected


@pytest.mark.parametrize(
    ("decision", "expected"),
    [
        pytest.param(
            decide(anchor=None, log_end=0, earliest=7),
            StartFresh(Position(7, 0)),
            id="from earliest",
        ),
        pytest.param(
            decide(anchor=None, log_end=0, reset="latest"),
            StartFresh(Position(150, 0)),
            id="latest",
        ),
        pytest.param(
            decide(anchor=None, log_end=9, earliest=7),
            MatchTail(Position(7, 9)),
            id="somebody's copy",
        ),
        pytest.param(
            decide(log_end=60, earliest=110),
            MatchTail(Position(120, 60)),
            id="counting would start at records that are gone",
        ),
    ],
)
def test_without_books(decision: Decision, expected: Decision) -> None:
    assert decision == expected


@pytest.mark.parametrize(
    ("decision", "kind", "gone"),
    [
        pytest.param(decide(log_end=39), "target-truncated", None, id="target shorter"),
        pytest.param(decide(end=99), "source-truncated", None, id="source shorter"),
        pytest.param(decide(log_end=91), "foreign-records", None, id="more than the source has"),
        pytest.param(
            decide(earliest=103), "records-expired", (100, 103), id="retention overtook us"
        ),
        pytest.param(
            decide(earliest=103, log_end=42),
            "records-expired",
            (102, 103),
            id="retention overtook the cut batch",
        ),
        pytest.param(decide(earliest=None), "source-missing", None, id="no source partition"),
        pytest.param(decide(end=None), "source-missing", None, id="source gone in between"),
        pytest.param(decide(log_end=None), "target-missing", None, id="no target partition"),
        pytest.param(
            decide(anchor=None, log_end=None), "target-missing", None, id="new, no target partition"
        ),
    ],
)
def test_problems(decision: Decision, kind: str, gone: tuple[int, int] | None) -> None:
    assert isinstance(decision, Problem)
    assert (decision.kind, decision.gone) == (kind, gone)


def test_a_problem_names_the_offsets() -> None:
    decision = decide(earliest=103)

    assert isinstance(decision, Problem)
    assert decision.text == (
        "the source now begins at offset 103: offsets 100 to 102 were deleted there and are not "
        "known to have been replicated"
    )
