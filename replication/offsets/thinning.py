"""How borders inside sparse ranges are given up with age, so that a map stays small. Pure.

Dense runs are not touched while they are longer than the spacing: every position in them stays
exact. Elsewhere two neighbours are joined if together they hold no more records than a 64th of
those that came after them. A group that is *d* records behind the end reads at most ``d / 64``
records again because of thinning, and never more than with MirrorMaker 2. A partition with *n*
records keeps at most ``128 * ln(n / 64)`` joined runs: 2 600 after a year of 1000 records a second.

In a remote topic that others write, too, their records lie between the runs. Nothing in a run says
where inside it such records are, so what is joined there is left out of the map: only where it
starts is kept, as an anchor, and the map knows of a range without runs that anything may be in it.
Others' records count for the spacing, and the bound holds for all records of the remote partition.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from replication.model import Position
from replication.offsets.runs import OffsetRun, anchor, coarser

RESOLUTION = 64
"""Runs of this share of the records after them stay apart."""


@dataclass(frozen=True, slots=True)
class _Section:
    """A part of the map: *run* states what is in it; None if it is not known any more."""

    start: Position
    end: Position
    run: OffsetRun | None

    def holds(self, sorted_offsets: Sequence[int]) -> bool:
        at = bisect_left(sorted_offsets, self.start.upstream)
        return at < len(sorted_offsets) and sorted_offsets[at] < self.end.upstream

    def is_continued(self, after: "_Section") -> bool:
        is_behind = after.start.downstream >= self.end.downstream
        return is_behind and after.start.upstream == self.end.upstream

    def joined(self, run: OffsetRun, spacing: int, reach: int) -> "_Section | None":
        """This section and *run*, which follows it in the target's log, as one; None to keep both.

        Nothing before this section may *reach* into it on the source: a range without runs is only
        known to be one where the source offsets in it are new.
        """
        if self.run is not None and self.end == Position(run.src_from, run.tgt_from):
            known = coarser(self.run, run, spacing)
            return _Section(self.start, known.end, known) if known else None
        is_ahead = self.end.upstream <= run.src_from and self.end.downstream <= run.tgt_from
        width = run.tgt_until - self.start.downstream
        if is_ahead and reach <= self.start.upstream and width <= spacing:
            return _Section(self.start, run.end, None)
        return None


def thin_runs(
    runs: Iterable[OffsetRun], mirror_syncs: Sequence[int] = (), resolution: int = RESOLUTION
) -> list[OffsetRun]:
    """The map of merged *runs*, in target order, with fewer borders in its older sparse ranges.

    Args:
        runs: The map.
        mirror_syncs: The border after a run that holds one of these source offsets stays:
            MirrorMaker 2 sends a group that has read that record at most back to it.
        resolution: As `RESOLUTION`.
    """
    sections: list[_Section] = []
    runs, reach = list(runs), -1
    log_end = runs[-1].tgt_until if runs else 0
    for run in runs:
        last = sections[-1] if sections else None
        spacing = (log_end - run.tgt_until) // resolution
        may_join = last is not None and spacing > 1 and not last.holds(mirror_syncs)
        joined = last.joined(run, spacing, reach) if last is not None and may_join else None
        if joined is not None:
            sections[-1] = joined
            continue
        if last is not None:
            reach = max(reach, last.end.upstream)
        sections.append(_Section(Position(run.src_from, run.tgt_from), run.end, run))
    return list(_runs_of(sections))


def _runs_of(sections: Sequence[_Section]) -> Iterator[OffsetRun]:
    for section, after in zip(sections, [*sections[1:], None], strict=True):
        if section.run is not None:
            yield section.run
            continue
        yield anchor(section.start)
        # where the next one continues on the source, its start ends the range without runs
        if after is None or not section.is_continued(after):
            yield anchor(section.end)
