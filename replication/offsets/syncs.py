"""Which offset syncs to write for MirrorMaker 2's readers, given a partition's runs. Pure.

MM2's `OffsetSyncStore` keeps 64 syncs of a partition, one for each power of two of the distance
from the newest. It would drop any others. So a long dense run yields the pair of its last record
and the pairs 1, 2, 4, ... spacings before it, and none between.
"""

from collections.abc import Iterable, Iterator

from replication.mm2.wire import OffsetSync
from replication.model import TopicPartition
from replication.offsets.runs import OffsetRun


def offset_syncs(
    partition: TopicPartition, runs: Iterable[OffsetRun], *, lag_max: int, replicated_until: int
) -> list[OffsetSync]:
    """Returns the syncs of *runs*, in the order to write them.

    Each sync alone is safe under MM2's rule (see `last_sync`), so every subset is safe too. The
    last one is always included, however close to the one before: MM2 writes such a sync late, with
    its next commit.

    Args:
        partition: The source partition.
        runs: Finished runs in the order they were written.
        lag_max: ``offset.lag.max``: two syncs are more than this many records apart.
        replicated_until: The greatest ``src_until`` of all older runs of the same topic id.
    """
    pairs: list[tuple[int, int]] = []
    for run in runs:
        found = list(_spaced_syncs(run, lag_max + 1, replicated_until))
        if found and len(pairs) > 1 and pairs[-1][1] - pairs[-2][1] <= lag_max:
            pairs.pop()  # included only because it was the last one
        pairs += found
        replicated_until = max(replicated_until, run.src_until)
    return [OffsetSync(partition, upstream, downstream) for upstream, downstream in pairs]


def last_sync(run: OffsetRun, *, replicated_until: int = 0) -> tuple[int, int] | None:
    """Returns the (upstream, downstream) pair at a finished run's end, if MM2 may translate by it.

    `OffsetSyncStore.translateDownstream` takes the newest sync with upstream <= committed. It
    answers downstream if the two are equal, downstream + 1 if not. With the pair before the run's
    end it answers the run's end for every group at or past it, and at most one record too early
    for a group one short of it, whether or not a record is there. A run without records has no
    pair: its predecessor's pair gives the same answers, and for an anchor at target offset 0 the
    pair would need offset -1.

    Args:
        run: A finished run.
        replicated_until: The greatest ``src_until`` of the older runs of the same topic id. A run
            that repeats earlier records has no pair until it passes this offset: MM2 forgets all
            older syncs when one steps back, and would send a group past records whose only copy
            lies before the repetition.
    """
    if run.count == 0 or run.src_until < replicated_until:
        return None
    return run.src_until - 1, run.tgt_until - 1


def _spaced_syncs(run: OffsetRun, spacing: int, replicated_until: int) -> Iterator[tuple[int, int]]:
    last = last_sync(run, replicated_until=replicated_until)
    if last is None:
        return
    upstream, downstream = last
    if run.is_dense:
        # Source offsets below replicated_until are repeated; a sync there would step back.
        reach = upstream - max(run.src_from, replicated_until)
        for power in reversed(range(max(0, reach // spacing).bit_length())):
            back = spacing << power
            yield upstream - back, downstream - back
    yield last
