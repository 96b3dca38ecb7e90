"""Sets of offsets as sorted, disjoint ranges. Pure.

A map may have thousands of ranges, so they are looked up by bisection.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from math import inf


def subtract(
    start: int, until: int, covered: Sequence[tuple[int, int]]
) -> Iterator[tuple[int, int]]:
    """Yields the parts of ``[start, until)`` outside *covered*, which is sorted and disjoint."""
    for at in range(max(0, bisect_right(covered, (start, inf)) - 1), len(covered)):
        low, high = covered[at]
        if start >= until or low >= until:
            break
        if start < low:
            yield start, low
        start = max(start, high)
    if start < until:
        yield start, until


def union(covered: Sequence[tuple[int, int]], start: int, until: int) -> list[tuple[int, int]]:
    """Joins *covered* and ``[start, until)``, sorted and disjoint; touching ranges become one."""
    if start == until:
        return list(covered)
    first, after = bisect_left(covered, (start,)), bisect_right(covered, (until, inf))
    if first and covered[first - 1][1] >= start:
        first -= 1
    low, high = start, until
    if first < after:
        low, high = min(low, covered[first][0]), max(high, covered[after - 1][1])
    return [*covered[:first], (low, high), *covered[after:]]
