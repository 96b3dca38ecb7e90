"""Sets of offsets as sorted, disjoint ranges. Pure."""

from collections.abc import Iterator, Sequence


def subtract(
    start: int, until: int, covered: Sequence[tuple[int, int]]
) -> Iterator[tuple[int, int]]:
    """The parts of ``[start, until)`` outside *covered*, which is sorted and disjoint."""
    for low, high in covered:
        if start < low and start < until:
            yield start, min(low, until)
        start = max(start, high)
    if start < until:
        yield start, until


def union(covered: Sequence[tuple[int, int]], start: int, until: int) -> list[tuple[int, int]]:
    """*covered* and ``[start, until)``, sorted and disjoint; touching ranges are joined."""
    if start == until:
        return list(covered)
    apart = [(low, high) for low, high in covered if high < start or until < low]
    touching = [(low, high) for low, high in covered if not (high < start or until < low)]
    low = min([start, *(low for low, _ in touching)])
    high = max([until, *(high for _, high in touching)])
    return sorted([*apart, (low, high)])
