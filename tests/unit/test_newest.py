"""The windows in which the newest records of a topic are."""

from hypothesis import given
from hypothesis import strategies as st

from replication.model import TopicPartition
from replication.offsets.runs import newest_windows

SPANS = st.dictionaries(
    st.integers(0, 20).map(lambda number: TopicPartition("t", number)),
    st.tuples(st.integers(0, 50), st.integers(0, 50)).map(
        lambda pair: (pair[0], pair[0] + pair[1])
    ),
    max_size=8,
)


def test_each_partition_gives_as_many_as_the_others_and_a_short_one_what_it_has() -> None:
    spans = {
        TopicPartition("t", 0): (0, 100),
        TopicPartition("t", 1): (40, 42),
        TopicPartition("t", 2): (7, 7),
        TopicPartition("t", 3): (0, 90),
    }

    assert newest_windows(spans, 20) == {
        TopicPartition("t", 0): (91, 100),
        TopicPartition("t", 1): (40, 42),
        TopicPartition("t", 3): (81, 90),
    }


@given(SPANS, st.integers(1, 100))
def test_the_windows_are_ends_of_logs_and_hold_what_is_wanted_or_all(
    spans: dict[TopicPartition, tuple[int, int]], records: int
) -> None:
    found = newest_windows(spans, records)

    sizes = {tp: until - start for tp, (start, until) in found.items()}
    assert sum(sizes.values()) == min(
        records, sum(until - start for start, until in spans.values())
    )
    assert all(
        spans[tp][0] <= start < until == spans[tp][1] for tp, (start, until) in found.items()
    )
    whole = [tp for tp in spans if sizes.get(tp, 0) == spans[tp][1] - spans[tp][0]]
    cut = [sizes.get(tp, 0) for tp in spans if tp not in whole]
    assert not cut or max(cut) - min(cut) <= 1
