"""How borders inside sparse ranges are given up with age, so that a map stays small. Pure.

Dense runs are not touched while they are longer than the spacing: every position in them stays
exact. Elsewhere two neighbours are joined if together they hold no more records than a 64th of
those that came after them. A group that is *d* records behind the end reads at most ``d / 64``
records again because of thinning, and never more than with MirrorMaker 2. A partition with *n*
records keeps at most ``128 * ln(n / 64)`` joined runs: 2 600 after a year of 1000 records a second.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence

from replication.offsets.runs import OffsetRun, coarser

RESOLUTION = 64
"""Runs of this share of the records after them stay apart."""


def thin_runs(runs: Iterable[OffsetRun], mirror_syncs: Sequence[int] = ()) -> list[OffsetRun]:
    """The map of merged *runs*, in target order, with fewer borders in its older sparse ranges.

    The border after a run that holds one of *mirror_syncs* stays: MirrorMaker 2 sends a group that
    has read that record at most back to it.
    """
    thinned: list[OffsetRun] = []
    runs = list(runs)
    end = runs[-1].tgt_until if runs else 0
    for run in runs:
        spacing = (end - run.tgt_until) // RESOLUTION
        may_join = thinned and spacing > 1 and not _holds(thinned[-1], mirror_syncs)
        joined = coarser(thinned[-1], run, spacing) if may_join else None
        if joined is None:
            thinned.append(run)
        else:
            thinned[-1] = joined
    return thinned


def _holds(run: OffsetRun, sorted_offsets: Sequence[int]) -> bool:
    at = bisect_left(sorted_offsets, run.src_from)
    return at < len(sorted_offsets) and sorted_offsets[at] < run.src_until
