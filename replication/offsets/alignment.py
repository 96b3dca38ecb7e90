"""Where to go on after a crash when the target's tail is not what counting predicts. Pure.

Counting (design D8) takes the target's tail for an unbroken copy of what follows the anchor. Where
comparing the records shows that it is not, `align` finds a position from which going on loses
nothing, at the price of repeating records.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from replication.offsets.runs import OffsetRun


@dataclass(frozen=True, slots=True)
class Alignment:
    """What the walk found.

    Args:
        upstream: Where to go on reading the source. Every source record before it is on the target.
        matched: Source records found on the target.
        target_only: Target records that match nothing: foreign, compacted away on the source, or
            copies of later source records, which going on at *upstream* will repeat.
        runs: The matched stretches, each unbroken on the target: rows for the offset map.
    """

    upstream: int
    matched: int
    target_only: int
    runs: tuple[OffsetRun, ...]


def align(
    source: Iterator[tuple[int, int]], target: Iterator[tuple[int, int]], *, source_end: int
) -> Alignment:
    """Find how far the target holds the source's records, from the anchor on and in order.

    The walk takes each target record in turn: if it equals the source record that is due, both
    advance; if not, the target record is passed over. Taking the first match is never worse than
    waiting for a later one, so no longer stretch exists. Every source record before ``upstream``
    was therefore seen on the target, each at a record of its own, and all others are read again.
    Hence nothing is lost, whatever the cause of the mismatch:

    - A hole (a record refused, later ones written): the walk stops at the refused record, which
      is due for ever; it and everything after it are written again, later ones for the second time.
    - A foreign writer's records match nothing that is due and are passed over.
    - Compaction of the source after the crash: what it removed is on the target only, and is
      passed over like a foreign record. What it left is due and found.
    - Compaction of the target: what it removed reads as a hole.
    - Identical records: each target record counts for one source record only. If a foreign record
      equals the one that is due, in key, value, headers and timestamp, then the target holds that
      record, whoever wrote it.

    Args:
        source: (offset, hash) of the source records from the anchor on, ascending; read no further
            than one record past the last match.
        target: (offset, hash) of the target records from the anchor to the log end, ascending. The
            hash covers key, value, headers and timestamp; 64 bits or more, since equal hashes pass
            for equal records.
        source_end: The offset at which *source* ends: the answer if every record of it was found.
    """
    runs: list[OffsetRun] = []
    target_only = 0
    due = next(source, None)
    for downstream, record in target:
        if due is None or due[1] != record:
            target_only += 1
            continue
        _add(runs, due[0], downstream)
        due = next(source, None)
    upstream = source_end if due is None else due[0]
    return Alignment(upstream, sum(run.count for run in runs), target_only, tuple(runs))


def _add(runs: list[OffsetRun], upstream: int, downstream: int) -> None:
    """Extend the last of *runs* by a matched record, or begin another after a break."""
    if runs and runs[-1].tgt_until == downstream:
        last = runs.pop()
        runs.append(OffsetRun(last.src_from, upstream + 1, last.tgt_from, last.count + 1))
    else:
        runs.append(OffsetRun(upstream, upstream + 1, downstream, 1))
