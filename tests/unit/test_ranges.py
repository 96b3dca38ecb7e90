"""Sets of offsets as ranges, against sets of single offsets."""

from functools import reduce

from hypothesis import given
from hypothesis import strategies as st

from replication.offsets.runs import subtract, union

Range = tuple[int, int]

RANGES = st.tuples(st.integers(0, 30), st.integers(0, 30)).map(lambda ends: (min(ends), max(ends)))


def offsets_of(*ranges: Range) -> set[int]:
    return {offset for start, until in ranges for offset in range(start, until)}


def union_of(ranges: list[Range]) -> list[Range]:
    return reduce(lambda covered, one: union(covered, *one), ranges, [])


@given(st.lists(RANGES))
def test_a_union_has_every_offset_once_in_order_and_as_few_ranges_as_possible(
    ranges: list[Range],
) -> None:
    covered = union_of(ranges)

    ends = [end for one in covered for end in one]
    assert offsets_of(*covered) == offsets_of(*ranges)
    assert ends == sorted(set(ends)), "sorted, disjoint, not empty, and none touches the next one"


@given(RANGES, st.lists(RANGES))
def test_what_is_left_has_the_offsets_that_are_not_covered(
    whole: Range, ranges: list[Range]
) -> None:
    left = list(subtract(*whole, union_of(ranges)))

    assert offsets_of(*left) == offsets_of(whole) - offsets_of(*ranges)
    assert left == union_of(left), "sorted, disjoint, not empty"
