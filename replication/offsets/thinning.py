"""How borders inside sparse ranges are given up with age, so that a map stays small. Pure.

Dense runs are not touched while they are longer than the spacing: every position in them stays
exact. Elsewhere two neighbours are joined if together they hold no more records than a 64th of
those that came after them. A group that is *d* records behind the end reads at most ``d / 64``
records again because of thinning, and never more than with MirrorMaker 2. A partition with *n*
records keeps at most ``128 * ln(n / 64)`` joined runs: 2 600 after a year of 1000 records a second.

In a remote topic that others write as well, their records lie between the runs. Nothing in a run
says where inside it such records are, so what is joined there is left out of the map: only where it
starts is kept, as an anchor, and the map knows of a range without runs that anything may be in it.
Others' records count for the spacing, and the bound holds for all records of the remote partition.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from replication.model import Position
from replication.offsets.runs import OffsetRun, anchor, coarser, merge_in_order

RESOLUTION = 64
"""Runs of this share of the records after them stay apart."""


@dataclass(frozen=True, slots=True)
class _Unknown:
    """A part of the map; only its two ends are still known."""

    src_from: int
    src_until: int
    tgt_from: int
    tgt_until: int


_Section = OffsetRun | _Unknown


class Replaced(NamedTuple):
    """The *runs* that replace some neighbours; the first of these stood at *place*."""

    runs: list[OffsetRun]
    place: int


def thin_runs(
    runs: Iterable[OffsetRun], mirror_syncs: Sequence[int] = (), resolution: int = RESOLUTION
) -> list[OffsetRun]:
    """Thins the map of merged *runs*, in target order: fewer borders in older sparse ranges.

    Args:
        runs: The map.
        mirror_syncs: The border after a run that holds one of these source offsets stays:
            MirrorMaker 2 sends a group that has read that record at most back to it.
        resolution: As `RESOLUTION`.
    """
    sections, _ = _joined(list(runs), mirror_syncs, resolution)
    return [run for replaced in _runs_of(sections) for run in replaced]


def compact_runs(runs: Sequence[OffsetRun]) -> list[Replaced]:
    """Computes what replaces a partition's *runs*, sorted by first target offset, count, and age.

    As `merge_runs` and then `thin_runs`, but runs that contradict each other stay as they are.
    """
    merged, merged_places = merge_in_order(runs)
    sections, places = _joined(merged, (), RESOLUTION)
    return [
        Replaced(replaced, merged_places[place])
        for replaced, place in zip(_runs_of(sections), places, strict=True)
    ]


def _joined(
    runs: Sequence[OffsetRun], mirror_syncs: Sequence[int], resolution: int
) -> tuple[list[_Section], list[int]]:
    """Returns the sections of the map, and where in *runs* each begins."""
    sections: list[_Section] = []
    places: list[int] = []
    log_end, reach = (runs[-1].tgt_until if runs else 0), -1
    for at, run in enumerate(runs):
        if sections:
            last, until = sections[-1], run.tgt_until
            spacing = (log_end - until) // resolution
            is_close = spacing > 1 and until - last.tgt_from <= spacing
            if is_close and not (mirror_syncs and _holds(last, mirror_syncs)):
                joined = _join(last, run, spacing, reach)
                if joined is not None:
                    sections[-1] = joined
                    continue
            reach = max(reach, last.src_until)
        sections.append(run)
        places.append(at)
    return sections, places


def _holds(section: _Section, sorted_offsets: Sequence[int]) -> bool:
    at = bisect_left(sorted_offsets, section.src_from)
    return at < len(sorted_offsets) and sorted_offsets[at] < section.src_until


def _join(last: _Section, run: OffsetRun, spacing: int, reach: int) -> _Section | None:
    """Joins *last* and *run*, its successor in the target's log, to a section; None to keep both.

    Nothing before *last* may *reach* into it on the source: a range without runs is only known to
    be one where the source offsets in it are new.
    """
    is_neighbour = last.src_until == run.src_from and last.tgt_until == run.tgt_from
    if is_neighbour and isinstance(last, OffsetRun):
        return coarser(last, run, spacing)
    is_ahead = last.src_until <= run.src_from and last.tgt_until <= run.tgt_from
    if is_ahead and reach <= last.src_from:
        return _Unknown(last.src_from, run.src_until, last.tgt_from, run.tgt_until)
    return None


def _runs_of(sections: Sequence[_Section]) -> Iterator[list[OffsetRun]]:
    """Yields what replaces each of *sections*."""
    for at, section in enumerate(sections):
        if isinstance(section, OffsetRun):
            yield [section]
            continue
        start = anchor(Position(section.src_from, section.tgt_from))
        after = sections[at + 1] if at + 1 < len(sections) else None
        if after is not None and _continues(section, after):
            # where the next one continues on the source, its start ends the range without runs
            yield [start]
        else:
            yield [start, anchor(Position(section.src_until, section.tgt_until))]


def _continues(section: _Section, after: _Section) -> bool:
    return after.tgt_from >= section.tgt_until and after.src_from == section.src_until
