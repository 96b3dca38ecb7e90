"""Where a partition resumes: a table of offsets and the decision for each."""

from typing import NamedTuple

import pytest

from replication.model import Position, TopicPartition
from replication.offsets.guard import (
    CountAhead,
    Decision,
    MatchTail,
    Missing,
    Refusal,
    Resume,
    StartFresh,
    plan_positions,
    start_over,
)

TP = TopicPartition("orders", 0)


class Why(NamedTuple):
    """The cause of a refusal and its text."""

    cause: str
    text: str


ANCHOR = Position(upstream=100, downstream=40)


def decide(
    *,
    anchor: Position | None = ANCHOR,
    log_end: int | None = 40,
    earliest: int | None = 0,
    end: int | None = 150,
    latest: int | None = None,
) -> Decision:
    def known(offset: int | None) -> dict[TopicPartition, int]:
        return {} if offset is None else {TP: offset}

    anchors = {} if anchor is None else {TP: anchor}
    decided = plan_positions(
        [TP], anchors, known(log_end), known(earliest), known(end), latest=known(latest)
    )
    assert list(decided) == [TP]
    return decided[TP]


@pytest.mark.parametrize(
    ("decision", "expected"),
    [
        pytest.param(decide(), Resume(ANCHOR), id="the target ends where the map does"),
        pytest.param(
            decide(earliest=100), Resume(ANCHOR), id="the next record is the first one left"
        ),
        pytest.param(decide(end=100), Resume(ANCHOR), id="nothing new on the source"),
        pytest.param(decide(log_end=41), CountAhead(ANCHOR, 1), id="one record after the anchor"),
        pytest.param(decide(log_end=90), CountAhead(ANCHOR, 50), id="the whole source is there"),
        pytest.param(
            decide(log_end=91), CountAhead(ANCHOR, 51), id="more records than the source has"
        ),
    ],
)
def test_a_recorded_partition_resumes_or_counts_ahead(
    decision: Decision, expected: Decision
) -> None:
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
            decide(anchor=None, log_end=0, latest=150),
            StartFresh(Position(150, 0)),
            id="latest",
        ),
        pytest.param(
            decide(anchor=None, log_end=9, earliest=7),
            MatchTail(Position(7, 9)),
            id="an unrecorded copy",
        ),
        pytest.param(
            decide(log_end=60, earliest=110),
            MatchTail(Position(120, 60)),
            id="the first records to count are gone",
        ),
        pytest.param(
            decide(log_end=60, earliest=101),
            MatchTail(Position(120, 60)),
            id="one of the records to count is gone",
        ),
    ],
)
def test_without_a_usable_anchor_the_configuration_or_the_tail_decides(
    decision: Decision, expected: Decision
) -> None:
    assert decision == expected


@pytest.mark.parametrize(
    ("decision", "expected"),
    [
        pytest.param(
            decide(log_end=39),
            Why(
                "target-truncated",
                "the target's log ends at 39, but the offset map ends at 40: the topic was "
                "recreated or truncated",
            ),
            id="target too short",
        ),
        pytest.param(
            decide(end=99),
            Why(
                "source-truncated",
                "the source's log ends at 99, but the offset map ends at 100: the topic was "
                "recreated or truncated",
            ),
            id="source too short",
        ),
        pytest.param(
            decide(earliest=103),
            Why(
                "records-expired",
                "the source now starts at offset 103: offsets 100 to 102 were deleted there and "
                "may not have been replicated",
            ),
            id="retention passed the anchor",
        ),
        pytest.param(
            decide(earliest=103, log_end=42),
            Why(
                "records-expired",
                "the source now starts at offset 103: offsets 102 to 102 were deleted there and "
                "may not have been replicated",
            ),
            id="retention passed an interrupted batch",
        ),
        pytest.param(
            decide(earliest=None),
            Missing("source", "orders-0 does not exist on the source"),
            id="no source partition",
        ),
        pytest.param(
            decide(end=None),
            Missing("source", "orders-0 does not exist on the source"),
            id="source deleted between the two lookups",
        ),
        pytest.param(
            decide(log_end=None),
            Missing("target", "the remote partition of orders-0 does not exist on the target"),
            id="no target partition",
        ),
        pytest.param(
            decide(anchor=None, log_end=None),
            Missing("target", "the remote partition of orders-0 does not exist on the target"),
            id="new, no target partition",
        ),
    ],
)
def test_each_kind_of_problem_names_its_offsets(
    decision: Decision, expected: Missing | Why
) -> None:
    found = Why(decision.cause, decision.text) if isinstance(decision, Refusal) else decision
    assert found == expected


@pytest.mark.parametrize(
    ("earliest", "end", "keeps_offset", "expected"),
    [
        pytest.param(7, 150, False, 7, id="from the first record that is left"),
        pytest.param(7, 150, True, 100, id="after the last record that was copied"),
        pytest.param(120, 150, True, 120, id="retention passed it"),
        pytest.param(0, 80, True, 80, id="the source was truncated"),
    ],
)
def test_an_empty_remote_partition_starts_over(
    earliest: int, end: int, expected: int, *, keeps_offset: bool
) -> None:
    assert start_over(ANCHOR, earliest, end, keeps_offset=keeps_offset) == expected


SHARED_LOG_END = 70


@pytest.mark.parametrize(
    ("anchor", "earliest", "end", "expected"),
    [
        pytest.param(ANCHOR, 0, 150, Resume(ANCHOR), id="as far as the map knows"),
        pytest.param(ANCHOR, 100, 100, Resume(ANCHOR), id="nothing new, everything else expired"),
        pytest.param(ANCHOR, 101, 150, "records-expired", id="the next record has expired"),
        pytest.param(ANCHOR, 0, 99, "source-truncated", id="the source was cut"),
        pytest.param(Position(100, 71), 0, 150, "target-truncated", id="the target was cut"),
        pytest.param(None, 7, 150, StartFresh(Position(7, 70)), id="others came first"),
    ],
)
def test_other_writers_records_are_not_counted(
    anchor: Position | None, earliest: int, end: int, expected: Decision | str
) -> None:
    anchors = {TP: anchor} if anchor else {}
    found = plan_positions(
        [TP],
        anchors,
        {TP: SHARED_LOG_END},
        {TP: earliest},
        {TP: end},
        shared={TP},
    )[TP]

    if isinstance(found, Refusal):
        assert (found.cause, found.log_end) == (expected, SHARED_LOG_END)
    else:
        assert found == expected
