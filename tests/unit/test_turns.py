"""The finished batches of two queries that read in turn, put into each partition's order."""

from collections.abc import Mapping
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from replication.flows.replicate.generation import AlternatingQuery, in_order
from replication.model import Position, TopicPartition
from replication.offsets.pending import PendingRuns
from replication.spark.progress import Batch

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def batch(number: int, **ranges: tuple[int, int]) -> Batch:
    """A batch that copied every record of its ranges; ``A=(0, 5)``."""
    read = {{"A": A, "B": B}[name]: offsets for name, offsets in ranges.items()}
    return Batch(
        number,
        {tp: start for tp, (start, _) in read.items()},
        {tp: end for tp, (_, end) in read.items()},
        {tp: end - start for tp, (start, end) in read.items()},
    )


def test_batches_that_follow_each_other_are_taken_as_they_are() -> None:
    first, second = batch(0, A=(0, 5), B=(0, 1)), batch(0, A=(5, 9), B=(1, 3))

    assert in_order([second, first], {A: 0, B: 0}) == ([first, second], [])


def test_a_batch_waits_for_the_one_before_it() -> None:
    second = batch(0, A=(5, 9))

    assert in_order([second], {A: 0, B: 0}) == ([], [second])


def test_the_parts_of_a_batch_wait_by_themselves() -> None:
    overtaken = batch(0, A=(5, 9), B=(0, 3))

    due, waiting = in_order([overtaken], {A: 0, B: 0})

    assert (due, waiting) == ([batch(0, B=(0, 3))], [batch(0, A=(5, 9))])


def test_a_task_that_had_no_turn_says_nothing_of_its_partitions() -> None:
    late = batch(3, A=(2, 2), B=(7, 8))

    assert in_order([late], {A: 90, B: 7}) == ([batch(3, B=(7, 8))], [])


def test_a_batch_that_read_nothing_waits_for_no_other() -> None:
    idle = batch(1, A=(9, 9), B=(3, 3))

    assert in_order([idle], {A: 5, B: 3}) == ([batch(1)], [])


def test_a_batch_that_begins_too_early_is_passed_on_to_be_refused() -> None:
    wrong = batch(0, A=(3, 9))

    assert in_order([wrong], {A: 5, B: 0}) == ([wrong], [])


def test_only_the_first_of_two_begins() -> None:
    first = AlternatingQuery("r", 5, is_first=True)

    assert first.options == {"relay": "r", "relayBegins": "true", "turnMs": "5000"}


Cuts = Mapping[TopicPartition, list[int]]


@given(
    st.integers(1, 6).flatmap(
        lambda turns: st.fixed_dictionaries(
            {
                tp: st.lists(st.integers(0, 50), min_size=turns + 1, max_size=turns + 1).map(sorted)
                for tp in (A, B)
            }
        )
    ),
    st.data(),
)
def test_whatever_the_order_of_events_the_offset_map_is_the_same(
    cuts: Cuts, data: st.DataObject
) -> None:
    turns = zip(pairwise(cuts[A]), pairwise(cuts[B]), strict=True)
    batches = [batch(n, A=a, B=b) for n, (a, b) in enumerate(turns)]
    arriving = data.draw(st.permutations(batches))
    starts = {tp: offsets[0] for tp, offsets in cuts.items()}
    pending = PendingRuns({tp: Position(start, 0) for tp, start in starts.items()})
    waiting: list[Batch] = []

    for each in arriving:
        due, waiting = in_order([*waiting, each], pending.batch_starts())
        for part in due:
            pending.add_batch(part.batch_id, part.start, part.end, part.counts)

    assert waiting == []
    ends = {tp: offsets[-1] for tp, offsets in cuts.items()}
    assert {tp: at.upstream for tp, at in pending.positions().items()} == ends
