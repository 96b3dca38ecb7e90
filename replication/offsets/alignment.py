"""Finds a safe resume position after a crash when the target's last records differ. Pure.

Normally, counting the records after the anchor is enough: the target's tail is an unbroken copy of
the source records after it. Where a comparison shows that it is not, `align` finds a position from
which resuming loses no record, at the price of repeating some.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from replication.offsets.fingerprint import Fingerprint
from replication.offsets.runs import OffsetRun


@dataclass(frozen=True, slots=True)
class Alignment:
    """The result of `align`.

    Args:
        upstream: Where to resume reading the source. Every source record before it is on the
            target.
        matched: Source records found on the target.
        target_only: Target records that match nothing: from another producer, compacted away on
            the source, or copies of later source records, which resuming at *upstream* repeats.
        runs: The matched sections, each unbroken on the target: rows for the offset map.
    """

    upstream: int
    matched: int
    target_only: int
    runs: tuple[OffsetRun, ...]


def align(
    source: Iterator[Fingerprint], target: Iterator[Fingerprint], *, source_end: int
) -> Alignment:
    """Finds how far the target holds the source's records, in order, starting at the anchor.

    The walk takes the target records one by one. If a record equals the next expected source
    record, both sides advance; if not, the target record is passed over. Taking the first match is
    never worse than waiting for a later one, so no longer match exists. Every source record before
    ``upstream`` was therefore found on the target, each at its own record, and all later ones are
    read again. So nothing is lost, whatever caused the mismatch:

    - A gap (the target rejected a record and accepted later ones): the walk stops at the rejected
      record. It and everything after it are written again, the later ones for the second time.
    - Another producer's records match no expected record and are passed over.
    - Compaction of the source after the crash: the removed records exist on the target only, and
      are passed over in the same way. The remaining ones are expected and found.
    - Compaction of the target: a removed record is a gap.
    - Identical records: each target record counts for one source record only. If another
      producer's record equals the expected one in key, value, headers and timestamp, then the
      target holds that record, whoever wrote it.
    - Records without a timestamp, or with one that the target has set, are equal by the rest.

    Args:
        source: The source records from the anchor on, ascending; read at most one record past the
            last match.
        target: The target records from the anchor to the log end, ascending. A hash has at least 64
            bits, because records with equal hashes are taken to be equal.
        source_end: The offset at which *source* ends: the answer if every record of it was found.
    """
    runs: list[OffsetRun] = []
    target_only = 0
    expected = next(source, None)
    for copy in target:
        if expected is None or not expected.equals(copy):
            target_only += 1
            continue
        _add(runs, expected.offset, copy.offset)
        expected = next(source, None)
    upstream = source_end if expected is None else expected.offset
    return Alignment(upstream, sum(run.count for run in runs), target_only, tuple(runs))


@dataclass(frozen=True, slots=True)
class Regrown:
    """What a target has got behind the place where it was cut.

    Args:
        present: The first offset of the source that it has got there, and the one after the last:
            what the flow had still to copy when the log was cut.
        missing: The offsets before them that were cut off, and are not there again; None if all
            are.
        runs: What it has got, in the order of its log.
    """

    present: tuple[int, int]
    missing: tuple[int, int] | None
    runs: tuple[OffsetRun, ...]


def align_regrown(
    lost_from: int,
    source: Callable[[], Iterator[Fingerprint]],
    target: Iterator[Fingerprint],
    *,
    source_end: int,
) -> Regrown | None:
    """Finds what a target has got behind a cut; None if that is anything else than copies.

    First come the records that were to be copied next. What was cut off may follow, as far as an
    earlier call has led to it.

    Args:
        lost_from: The source offset of the first record that was cut off.
        source: Begins the source's records from there on, each time anew.
        target: The target's records from the cut to the log end.
        source_end: The offset at which *source* ends.
    """
    runs: list[OffsetRun] = []
    copy = next(target, None)
    if copy is None:
        return None
    originals = source()
    expected = next((one for one in originals if one.equals(copy)), None)
    if expected is None:
        return None
    first = expected.offset
    while copy is not None and expected is not None and expected.equals(copy):
        _add(runs, expected.offset, copy.offset)
        copy, expected = next(target, None), next(originals, None)
    present = first, source_end if expected is None else expected.offset
    lost = (one for one in source() if lost_from <= one.offset < first)
    expected = next(lost, None)
    again: list[OffsetRun] = []
    while copy is not None and expected is not None and expected.equals(copy):
        _add(again, expected.offset, copy.offset)
        copy, expected = next(target, None), next(lost, None)
    if copy is not None:
        return None
    missing = None if expected is None else (expected.offset, first)
    return Regrown(present, missing, (*runs, *again))


def _add(runs: list[OffsetRun], upstream: int, downstream: int) -> None:
    """Extends the last of *runs* by a matched record, or starts a new run after a break."""
    if runs and runs[-1].tgt_until == downstream:
        last = runs.pop()
        runs.append(OffsetRun(last.src_from, upstream + 1, last.tgt_from, last.count + 1))
    else:
        runs.append(OffsetRun(upstream, upstream + 1, downstream, 1))
