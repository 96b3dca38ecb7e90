"""The offset map against a brute-force model: replicate a random log, then look at every record."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replication.model import Position, TopicPartition
from replication.offsets.map import (
    Ahead,
    Bounded,
    Exact,
    NoAnswer,
    OffsetMap,
    OffsetRun,
    PendingRuns,
    ProgressGapError,
    Translation,
    anchor,
    merge_runs,
    mm2_syncs,
    next_run,
    translate,
    translate_back,
)

TP = TopicPartition("orders", 0)
OTHER = TopicPartition("orders", 1)
FOREIGN = -1


@dataclass
class CopiedPartition:
    """A source partition, its copy, and the books of the replication between them.

    ``target[i]`` is the source offset of the record at target offset ``first + i``.
    """

    records: frozenset[int]
    source_end: int
    first: int
    start: int
    target: list[int] = field(default_factory=list)
    runs: list[OffsetRun] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.position = Position(self.start, self.first)
        self.replicated_until = self.start
        self.runs.append(anchor(self.position))

    def replicate(self, width: int) -> None:
        """One batch of up to *width* source offsets, booked as a run."""
        until = min(self.source_end, self.position.upstream + width)
        copied = [s for s in range(self.position.upstream, until) if s in self.records]
        self.target += copied
        run = next_run(
            self.position, src_from=self.position.upstream, src_until=until, count=len(copied)
        )
        self.runs.append(run)
        self.position = run.end

    def set_to(self, upstream: int) -> None:
        """The source was skipped (forward) or restarted (back): a new anchor."""
        self.position = Position(min(upstream, self.source_end), self.position.downstream)
        self.runs.append(anchor(self.position))

    def write_foreign(self, count: int) -> None:
        """Somebody else writes to the target; the books are anchored behind it."""
        self.target += [FOREIGN] * count
        self.position = Position(self.position.upstream, self.position.downstream + count)
        self.runs.append(anchor(self.position))

    def true_position(self, committed: int) -> int:
        """The highest target offset that skips no record from *committed* on."""
        newest = {s: self.first + i for i, s in enumerate(self.target) if s != FOREIGN}
        return min((t for s, t in newest.items() if s >= committed), default=self.end)

    def true_position_back(self, committed: int) -> int:
        """The highest source offset that skips no record not read on the target, nor to come."""
        read = {s for i, s in enumerate(self.target) if self.first + i < committed}
        behind = set(self.target[committed - self.first :])
        to_come = range(self.position.upstream, self.source_end)
        unread = (behind | set(to_come) & self.records) - read - {FOREIGN}
        return min(unread, default=self.source_end)

    @property
    def end(self) -> int:
        """The target's log end offset."""
        return self.first + len(self.target)

    def reread(self, committed: int, offset: int) -> int:
        """Records the group has read before and gets again, those still to be copied included."""
        to_come = [s for s in range(self.position.upstream, self.source_end) if s in self.records]
        again = self.target[offset - self.first :] + to_come
        return sum(1 for s in again if s != FOREIGN and s < committed)

    def reread_back(self, committed: int, offset: int) -> int:
        """Records the group has read on the target and gets again on the source."""
        return sum(1 for s in self.target[: committed - self.first] if s >= offset)


def offset_of(answer: Translation) -> int:
    assert not isinstance(answer, NoAnswer)
    return answer.offset


def bound_of(answer: Translation) -> int:
    assert not isinstance(answer, NoAnswer)
    return 0 if isinstance(answer, Exact) else answer.reread


@st.composite
def worlds(draw: st.DrawFn, *, one_way: bool = False) -> CopiedPartition:
    """Random logs replicated in random batches; *one_way* leaves out setbacks and foreigners."""
    end = draw(st.integers(1, 30))
    density = draw(st.sampled_from([1, 2, 8, 100]))  # 100: every offset holds a record, almost
    records = frozenset(s for s in range(end) if draw(st.integers(1, density)) > 1 or density > 50)
    start = draw(st.integers(0, min(5, end)))
    world = CopiedPartition(records, end, draw(st.integers(0, 3)), start)
    kinds = ["batch"] if one_way else ["batch", "batch", "batch", "set", "foreign"]
    for _ in range(draw(st.integers(0, 8))):
        match draw(st.sampled_from(kinds)):
            case "batch":
                world.replicate(draw(st.integers(0, 12)))
            case "set":
                world.set_to(draw(st.integers(start, end)))
            case _:
                world.write_foreign(draw(st.integers(1, 3)))
    return world


# --- one partition's history in literal numbers -------------------------------------------------

DENSE, SPARSE = OffsetRun(100, 200, 0, 100), OffsetRun(200, 240, 100, 30)
HISTORY = (DENSE, SPARSE)
SKIPPED = (DENSE, OffsetRun(500, 600, 100, 100))
SET_BACK = (DENSE, OffsetRun(150, 160, 100, 10))
CAUGHT_UP = (DENSE, OffsetRun(150, 250, 100, 100))


@pytest.mark.parametrize(
    ("runs", "committed", "expected"),
    [
        pytest.param((), 7, NoAnswer("nothing replicated", None), id="no runs"),
        pytest.param(HISTORY, 99, NoAnswer("before the first run", 100), id="before the first"),
        pytest.param(HISTORY, 100, Exact(0), id="at the start"),
        pytest.param(HISTORY, 142, Exact(42), id="dense"),
        pytest.param(HISTORY, 200, Exact(100), id="start of a sparse run"),
        pytest.param(HISTORY, 205, Bounded(100, 5), id="sparse, near its start"),
        pytest.param(HISTORY, 230, Bounded(120, 10), id="sparse, near its end: all ten gaps"),
        pytest.param(HISTORY, 240, Exact(130), id="at the end"),
        pytest.param(HISTORY, 999, Ahead(130, 759), id="beyond the end"),
        pytest.param((anchor(Position(50, 7)),), 50, Exact(7), id="on an anchor"),
        pytest.param((anchor(Position(50, 7)),), 51, Ahead(7, 1), id="past an anchor"),
        pytest.param(SKIPPED, 300, Exact(100), id="in a skipped range: what follows it"),
        pytest.param(SKIPPED, 200, Exact(100), id="before a skipped range"),
        pytest.param(SET_BACK, 120, Exact(20), id="set back later"),
        pytest.param(SET_BACK, 155, Bounded(60, 5), id="repeated, but 160.. only before it"),
        pytest.param(SET_BACK, 200, Bounded(110, 40), id="all read, 160.. will be repeated"),
        pytest.param(CAUGHT_UP, 155, Exact(105), id="repetition caught up: the newest copy"),
        pytest.param(CAUGHT_UP, 149, Exact(49), id="before the repetition"),
    ],
)
def test_translate(runs: Sequence[OffsetRun], committed: int, expected: Translation) -> None:
    assert translate(runs, committed) == expected


@pytest.mark.parametrize(
    ("runs", "committed", "expected"),
    [
        pytest.param((), 7, NoAnswer("nothing replicated", None), id="no runs"),
        pytest.param(
            (anchor(Position(50, 7)),),
            6,
            NoAnswer("before the first run", 7),
            id="before the first",
        ),
        pytest.param((anchor(Position(50, 7)),), 7, Exact(50), id="on an anchor"),
        pytest.param(HISTORY, 0, Exact(100), id="at the start"),
        pytest.param(HISTORY, 42, Exact(142), id="dense"),
        pytest.param(HISTORY, 100, Exact(200), id="start of a sparse run"),
        pytest.param(HISTORY, 104, Bounded(204, 4), id="sparse, near its start"),
        pytest.param(HISTORY, 125, Bounded(225, 10), id="sparse, near its end: all ten gaps"),
        pytest.param(HISTORY, 130, Exact(240), id="at the end"),
        pytest.param(HISTORY, 133, Ahead(240, 3), id="beyond the end"),
        pytest.param(SKIPPED, 100, Exact(200), id="before a skipped range: never past it"),
        pytest.param(SKIPPED, 101, Exact(501), id="after a skipped range"),
        pytest.param(SET_BACK, 105, Exact(200), id="in the repetition: all before was read"),
        pytest.param(CAUGHT_UP, 105, Exact(200), id="in what was read twice"),
        pytest.param(CAUGHT_UP, 151, Exact(201), id="past what was read twice"),
        pytest.param(
            (DENSE, OffsetRun(200, 210, 105, 10)), 103, Bounded(200, 3), id="in foreign records"
        ),
        pytest.param(
            (DENSE, OffsetRun(200, 210, 105, 10)), 106, Exact(201), id="past foreign records"
        ),
    ],
)
def test_translate_back(runs: Sequence[OffsetRun], committed: int, expected: Translation) -> None:
    assert translate_back(runs, committed) == expected


@pytest.mark.parametrize("ask", [translate, translate_back])
def test_a_negative_offset_is_not_a_position(
    ask: Callable[[Sequence[OffsetRun], int], Translation],
) -> None:
    with pytest.raises(ValueError, match="must be 0 or more, got -1"):
        ask(HISTORY, -1)


# --- the invariants -----------------------------------------------------------------------------


@given(worlds())
def test_never_past(world: CopiedPartition) -> None:
    answers = OffsetMap(world.runs)

    for committed in range(world.start, world.source_end + 3):
        assert offset_of(answers.translate(committed)) <= world.true_position(committed)


@given(worlds(one_way=True))
def test_exact_where_dense(world: CopiedPartition) -> None:
    answers = OffsetMap(world.runs)

    for run in world.runs:
        inside = range(run.src_from, run.src_until + 1)
        for committed in inside if run.is_dense else (run.src_from, run.src_until):
            assert answers.translate(committed) == Exact(world.true_position(committed))
            back = answers.translate_back(world.true_position(committed))
            assert isinstance(back, Exact)
            assert not world.records & set(range(committed, back.offset))


@given(worlds())
def test_honest_bound(world: CopiedPartition) -> None:
    answers = OffsetMap(world.runs)

    for committed in range(world.start, world.source_end + 3):
        answer = answers.translate(committed)
        assert world.reread(committed, offset_of(answer)) <= bound_of(answer)


@given(worlds(one_way=True))
def test_the_bound_is_at_most_the_gaps_of_the_run(world: CopiedPartition) -> None:
    answers = OffsetMap(world.runs)

    for run in world.runs:
        gaps = run.src_until - run.src_from - run.count
        for committed in range(run.src_from, run.src_until):
            assert bound_of(answers.translate(committed)) <= gaps


@given(worlds())
def test_monotonic(world: CopiedPartition) -> None:
    answers = OffsetMap(world.runs)
    there = [offset_of(answers.translate(c)) for c in range(world.start, world.source_end + 3)]
    back = [offset_of(answers.translate_back(c)) for c in range(world.first, world.end + 3)]

    assert there == sorted(there)
    assert back == sorted(back)


@given(worlds())
def test_never_past_on_the_way_back(world: CopiedPartition) -> None:
    answers = OffsetMap(world.runs)

    for committed in range(world.first, world.end + 3):
        answer = answers.translate_back(committed)
        assert offset_of(answer) <= world.true_position_back(committed)
        assert world.reread_back(committed, offset_of(answer)) <= bound_of(answer)


@given(worlds(one_way=True))
def test_there_and_back_changes_nothing_on_a_dense_run(world: CopiedPartition) -> None:
    answers = OffsetMap(world.runs)

    for run in merge_runs(world.runs):
        for committed in range(run.src_from, run.src_until) if run.is_dense else ():
            there = offset_of(answers.translate(committed))
            assert answers.translate_back(there) == Exact(committed)


@given(worlds())
def test_there_and_back_skips_no_record(world: CopiedPartition) -> None:
    answers = OffsetMap(world.runs)

    for committed in range(world.start, world.source_end):
        there = offset_of(answers.translate(committed))
        back = offset_of(answers.translate_back(there))
        copied = set(world.target) - set(world.target[: there - world.first])
        assert not copied & set(range(committed, back))


# --- merging ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        pytest.param(
            [OffsetRun(10, 20, 15, 10), OffsetRun(0, 10, 5, 10)],
            [OffsetRun(0, 20, 5, 20)],
            id="dense neighbours, in any order",
        ),
        pytest.param([SPARSE, SPARSE], [SPARSE], id="the same run twice"),
        pytest.param(
            [OffsetRun(0, 10, 0, 10), OffsetRun(0, 25, 0, 25)],
            [OffsetRun(0, 25, 0, 25)],
            id="dense runs that overlap and agree",
        ),
        pytest.param(
            [OffsetRun(0, 5, 0, 0), OffsetRun(5, 9, 0, 0)], [OffsetRun(0, 9, 0, 0)], id="no records"
        ),
        pytest.param(
            [OffsetRun(0, 9, 0, 5), OffsetRun(9, 20, 5, 5)],
            [OffsetRun(0, 9, 0, 5), OffsetRun(9, 20, 5, 5)],
            id="sparse neighbours stay apart",
        ),
        pytest.param(
            [OffsetRun(0, 9, 0, 5), OffsetRun(9, 20, 5, 0)],
            [OffsetRun(0, 9, 0, 5), OffsetRun(9, 20, 5, 0)],
            id="sparse and without records: the border is exact",
        ),
        pytest.param(
            [OffsetRun(0, 1, 0, 0), anchor(Position(0, 0)), OffsetRun(0, 1, 0, 0)],
            [OffsetRun(0, 1, 0, 0)],
            id="a joined run is joined again",
        ),
        pytest.param([DENSE, anchor(DENSE.end)], [DENSE], id="anchor at the end"),
        pytest.param([anchor(Position(100, 0)), DENSE], [DENSE], id="anchor at the start"),
        pytest.param(
            [DENSE, anchor(Position(300, 100))],
            [DENSE, anchor(Position(300, 100))],
            id="anchor that says more",
        ),
        pytest.param(
            [DENSE, OffsetRun(300, 310, 100, 10)],
            [DENSE, OffsetRun(300, 310, 100, 10)],
            id="a skip between",
        ),
        pytest.param(
            [OffsetRun(0, 10, 0, 8), OffsetRun(0, 9, 0, 8)],
            [OffsetRun(0, 10, 0, 8), OffsetRun(0, 9, 0, 8)],
            id="two true statements about one batch",
        ),
    ],
)
def test_merge_runs(runs: list[OffsetRun], expected: list[OffsetRun]) -> None:
    assert merge_runs(runs) == expected


@given(worlds())
def test_merging_again_changes_nothing(world: CopiedPartition) -> None:
    merged = merge_runs(world.runs)

    assert merge_runs(merged) == merged
    assert OffsetMap(world.runs).end == world.position


@pytest.mark.parametrize(
    "after",
    [
        pytest.param(OffsetRun(0, 100, 50, 100), id="dense, another shift"),
        pytest.param(OffsetRun(110, 210, 50, 100), id="dense, shift off by forty"),
        pytest.param(OffsetRun(900, 999, 50, 60), id="other source range"),
    ],
)
def test_runs_that_contradict_each_other_are_refused(after: OffsetRun) -> None:
    with pytest.raises(ValueError, match="claim the same target offsets"):
        merge_runs([DENSE, after])


@pytest.mark.parametrize(
    ("numbers", "problem"),
    [
        pytest.param((0, 10, 0, 11), "count must lie between", id="more records than offsets"),
        pytest.param((10, 0, 0, 0), "count must lie between", id="backwards"),
        pytest.param((0, 10, 0, -1), "count must lie between", id="negative count"),
        pytest.param((-1, 10, 0, 1), "offsets must be 0 or more", id="negative source"),
        pytest.param((0, 10, -1, 1), "offsets must be 0 or more", id="negative target"),
    ],
)
def test_an_impossible_run_is_refused(numbers: tuple[int, int, int, int], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        OffsetRun(*numbers)


# --- books --------------------------------------------------------------------------------------


def book() -> PendingRuns:
    return PendingRuns({TP: Position(100, 0), OTHER: Position(7, 70)})


def test_dense_batches_drain_as_one_run() -> None:
    books = book()
    for batch in range(5):
        start = 100 + 10 * batch
        books.add_batch(batch, {TP: start, OTHER: 7}, {TP: start + 10, OTHER: 7}, {TP: 10})

    assert books.drain() == {TP: [OffsetRun(100, 150, 0, 50)]}
    assert books.drain() == {}
    assert books.positions() == {TP: Position(150, 50), OTHER: Position(7, 70)}


def test_sparse_batches_stay_apart() -> None:
    books = book()
    books.add_batch(0, {TP: 100}, {TP: 110}, {TP: 9})
    books.add_batch(1, {TP: 110}, {TP: 120}, {TP: 9})

    assert books.drain() == {TP: [OffsetRun(100, 110, 0, 9), OffsetRun(110, 120, 9, 9)]}


@pytest.mark.parametrize(
    ("start", "end", "counts", "problem"),
    [
        pytest.param({TP: 101}, {TP: 110}, {}, "starts at 101, the books stand at 100", id="gap"),
        pytest.param({TP: 90}, {TP: 110}, {}, "starts at 90, the books stand at 100", id="again"),
        pytest.param({TP: 100}, {TP: 110}, {TP: 11}, "wrote 11 records of the range", id="many"),
        pytest.param({TP: 100}, {TP: 99}, {}, "wrote 0 records of the range", id="backwards"),
        pytest.param({}, {}, {TP: 1}, "None to None, with 1 records", id="no range"),
        pytest.param({TP: 100}, {}, {}, "100 to None, with 0 records", id="no end"),
        pytest.param(
            {("t", 5): 0}, {("t", 5): 1}, {}, "the books stand at nothing", id="unknown partition"
        ),
    ],
)
def test_a_batch_that_does_not_continue_the_books_is_refused_whole(
    start: dict[TopicPartition, int],
    end: dict[TopicPartition, int],
    counts: dict[TopicPartition, int],
    problem: str,
) -> None:
    books = book()

    with pytest.raises(ProgressGapError, match=f"batch 3, .*{problem}"):
        books.add_batch(3, {OTHER: 7, **start}, {OTHER: 8, **end}, counts)

    assert books.drain() == {}
    assert books.positions() == book().positions()


# --- what MirrorMaker 2 makes of our syncs ------------------------------------------------------


def mm2_translate(syncs: Sequence[tuple[int, int]], committed: int) -> int | None:
    """MM2's rule with an unbounded store: a sync that steps back makes it forget all others."""
    known: list[tuple[int, int]] = []
    for sync in syncs:
        known = [sync] if known and sync[0] < known[-1][0] else [*known, sync]
    for upstream, downstream in reversed(known):
        if upstream <= committed:
            return downstream if upstream == committed else downstream + 1
    return None


@given(worlds(), st.sets(st.integers(0, 10)))
def test_mirrormaker_never_passes_the_true_position_by_our_syncs(
    world: CopiedPartition, unsent: set[int]
) -> None:
    syncs: list[tuple[int, int]] = []
    replicated_until = 0
    for run in world.runs:
        syncs += mm2_syncs(run, replicated_until=replicated_until)
        replicated_until = max(replicated_until, run.src_until)
    sent = [sync for i, sync in enumerate(syncs) if i not in unsent]

    for committed in range(world.source_end + 3):
        answer = mm2_translate(sent, committed)
        assert answer is None or 0 <= answer <= world.true_position(committed)
    if not unsent and syncs and world.runs[-1].count:
        assert syncs[-1][1] < world.end


@pytest.mark.parametrize(
    ("run", "replicated_until", "expected"),
    [
        pytest.param(DENSE, 0, ((199, 99),), id="the last record"),
        pytest.param(SPARSE, 200, ((239, 129),), id="sparse, whether or not 239 is a record"),
        pytest.param(OffsetRun(0, 10, 0, 0), 0, (), id="no records: it would need offset -1"),
        pytest.param(anchor(Position(9, 9)), 0, (), id="anchor"),
        pytest.param(SET_BACK[1], 200, (), id="a repetition that has not caught up"),
        pytest.param(CAUGHT_UP[1], 200, ((249, 199),), id="a repetition that has"),
    ],
)
def test_mm2_syncs(
    run: OffsetRun, replicated_until: int, expected: tuple[tuple[int, int], ...]
) -> None:
    assert mm2_syncs(run, replicated_until=replicated_until) == expected
