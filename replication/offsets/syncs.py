"""Which of MirrorMaker 2's offset syncs the finished runs of a partition give. Pure.

MM2's translator keeps 64 syncs for a partition, one for each power of two of the distance from the
newest. More than that would be written for nobody, so a long dense run gives its last pair, the
pairs at 1, 2, 4, ... times the spacing before it, and none between.
"""

from collections.abc import Iterable, Iterator

from replication.mm2.wire import OffsetSync
from replication.model import TopicPartition
from replication.offsets.runs import OffsetRun, mm2_syncs


def offset_syncs(
    partition: TopicPartition, runs: Iterable[OffsetRun], *, lag_max: int, replicated_until: int
) -> list[OffsetSync]:
    """The syncs of *runs*, in the order to write them.

    Each is safe for MM2's rule on its own (`mm2_syncs`), hence so is any choice among them. The
    last one is always given, however close to the one before: MM2 writes such a sync late, with
    its next commit.

    Args:
        partition: Of the source.
        runs: Finished runs in the order they were written.
        lag_max: ``offset.lag.max``: records between two syncs, more than this many.
        replicated_until: The greatest ``src_until`` among all older runs of the same topic id.
    """
    pairs: list[tuple[int, int]] = []
    for run in runs:
        found = list(_pairs(run, lag_max + 1, replicated_until))
        if found and len(pairs) > 1 and pairs[-1][1] - pairs[-2][1] <= lag_max:
            pairs.pop()  # it was only there as the last
        pairs += found
        replicated_until = max(replicated_until, run.src_until)
    return [OffsetSync(partition, upstream, downstream) for upstream, downstream in pairs]


def _pairs(run: OffsetRun, spacing: int, replicated_until: int) -> Iterator[tuple[int, int]]:
    last = mm2_syncs(run, replicated_until=replicated_until)
    if last and run.is_dense:
        # below replicated_until lies a repetition: a sync there would step back, see mm2_syncs
        reach = run.src_until - 1 - max(run.src_from, replicated_until)
        steps = reach // spacing
        for power in reversed(range(max(0, steps).bit_length())):
            back = spacing << power
            yield run.src_until - 1 - back, run.tgt_until - 1 - back
    yield from last
