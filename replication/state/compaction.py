"""A flow's offset map in fewer rows, as one query: the rows never leave Spark.

For tables that delta-rs does not write; `replication.state.local_compaction` is for the others, and
many times faster. The rule is that of `merge_runs` and `thin_runs`;
``tests/spark/test_compaction.py`` compares them. Adjacent dense runs are joined by a window,
however many there are. What is left is folded by partition, oldest first, `_CHUNK` runs at a time:
each run that stays copies the array of its chunk, so the array of a chunk stays short, and the
chunks are put together. A section of which the rule keeps the start only becomes an anchor.
"""

from replication.model import Flow
from replication.offsets.thinning import RESOLUTION
from replication.state.offset_rows import COMPACTED

# A run here is a struct of tgt_from, tgt_until, newest, src_from, src_until, is_known; in this
# order, so that an array of runs is sorted as `merge_runs` sorts them. ``newest`` is what stays of
# the rows that a run replaces: generation, written_at, last_batch. ``is_known`` is false where
# others' records may be between those of the run.

_IS_DENSE = "`count` > 0 AND `count` = src_until - src_from"
_SAME_SHIFT = f"""
    PARTITION BY topic, `partition`, topic_id, {_IS_DENSE}, tgt_from - src_from
    ORDER BY tgt_from, `count`
"""
_JOINED = """
    named_struct('done', held.done, 'reach', held.reach, 'last', named_struct(
      'tgt_from', held.last.tgt_from, 'tgt_until', greatest(held.last.tgt_until, run.tgt_until),
      'newest', greatest(held.last.newest, run.newest),
      'src_from', held.last.src_from, 'src_until', greatest(held.last.src_until, run.src_until),
      'is_known', {is_known}
    ))
"""
_ENDS_ARE_EQUAL = "held.last.src_until = run.src_until AND held.last.tgt_until = run.tgt_until"
_STARTS_ARE_EQUAL = "held.last.src_from = run.src_from AND held.last.tgt_from = run.tgt_from"
_ARE_NEIGHBOURS = "held.last.src_until = run.src_from AND held.last.tgt_until = run.tgt_from"
_SPACING = f"(log_end - run.tgt_until) DIV {RESOLUTION}"
_ARE_CLOSE = f"{_SPACING} > 1 AND run.tgt_until - held.last.tgt_from <= {_SPACING}"
_MAY_JOIN = f"""
    {_STARTS_ARE_EQUAL} AND {_ENDS_ARE_EQUAL}
    OR run.src_from = run.src_until AND {_ENDS_ARE_EQUAL}
    OR held.last.is_known AND (
      held.last.src_from = held.last.src_until AND {_STARTS_ARE_EQUAL}
      OR {_ARE_NEIGHBOURS} AND held.last.tgt_from = run.tgt_until
      OR {_ARE_NEIGHBOURS} AND held.last.src_from < held.last.src_until AND {_ARE_CLOSE}
    )
"""
_MAY_BE_LEFT_OUT = f"""
    held.last.src_until <= run.src_from AND held.last.tgt_until <= run.tgt_from
    AND held.reach <= held.last.src_from AND {_ARE_CLOSE}
"""
_CHUNK = 64
"""Runs that are folded into an array of their own."""

_THINNED = f"""
    aggregate(
      sequence(0, (size(runs) - 2) DIV {_CHUNK}),
      named_struct('done', slice(runs, 1, 0), 'reach', CAST(-1 AS BIGINT), 'last', runs[0]),
      (so_far, chunk) -> aggregate(
        slice(runs, 2 + {_CHUNK} * chunk, {_CHUNK}),
        named_struct('done', slice(runs, 1, 0), 'reach', so_far.reach, 'last', so_far.last),
        (held, run) -> CASE
          WHEN {_MAY_JOIN} THEN {_JOINED.format(is_known="held.last.is_known")}
          WHEN {_MAY_BE_LEFT_OUT} THEN {_JOINED.format(is_known="false")}
          ELSE named_struct(
            'done', concat(held.done, array(held.last)),
            'reach', greatest(held.reach, held.last.src_until), 'last', run
          )
        END,
        held -> named_struct(
          'done', concat(so_far.done, held.done), 'reach', held.reach, 'last', held.last
        )
      ),
      so_far -> concat(so_far.done, array(so_far.last))
    )
"""
_ANCHOR = """named_struct(
      'tgt_from', run.{at}, 'tgt_until', run.{at}, 'newest', run.newest,
      'src_from', run.{src}, 'src_until', run.{src}, 'is_known', true
    )"""
_START = _ANCHOR.format(at="tgt_from", src="src_from")
_END = _ANCHOR.format(at="tgt_until", src="src_until")
_IS_CONTINUED = """
    coalesce(
      get(sections, at + 1).src_from = run.src_until
      AND get(sections, at + 1).tgt_from >= run.tgt_until, false
    )
"""
_KEPT = f"""
    flatten(transform(sections, (run, at) -> CASE
      WHEN run.is_known THEN array(run)
      WHEN {_IS_CONTINUED} THEN array({_START})
      ELSE array({_START}, {_END})
    END))
"""


def compacted(rows: str, flow: Flow) -> str:
    """Returns the query for the rows that replace those of *flow* in *rows* (a source for SQL)."""
    return f"""
    WITH flagged AS (
      SELECT *, {_IS_DENSE} AS is_dense, coalesce(
        {_IS_DENSE} AND tgt_from <= max(tgt_from + `count`) OVER (
          {_SAME_SHIFT} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ), false) AS continues
      FROM {rows} WHERE flow = '{flow}'
    ),
    numbered AS (
      SELECT *, sum(IF(continues, 0, 1)) OVER ({_SAME_SHIFT} ROWS UNBOUNDED PRECEDING) AS number
      FROM flagged
    ),
    merged AS (
      SELECT topic, `partition`, topic_id, struct(
        min(tgt_from) AS tgt_from, max(tgt_from + `count`) AS tgt_until,
        max(struct(generation, written_at, last_batch)) AS newest,
        min(src_from) AS src_from, max(src_until) AS src_until, true AS is_known
      ) AS run
      FROM numbered
      GROUP BY topic, `partition`, topic_id, is_dense, tgt_from - src_from,
        -- of the others, those that say the same
        IF(is_dense, number, tgt_from), IF(is_dense, 0, `count`), IF(is_dense, 0, src_until)
    ),
    by_partition AS (
      SELECT topic, `partition`, topic_id, sort_array(collect_list(run)) AS runs
      FROM merged GROUP BY topic, `partition`, topic_id
    ),
    thinned AS (
      SELECT topic, `partition`, topic_id, {_THINNED} AS sections
      FROM (SELECT *, element_at(runs, -1).tgt_until AS log_end FROM by_partition)
    ),
    kept AS (SELECT topic, `partition`, topic_id, explode({_KEPT}) AS run FROM thinned)
    SELECT '{flow}' AS flow, run.newest.generation, topic, `partition`, topic_id,
      run.src_from, run.src_until, run.tgt_from, run.tgt_until - run.tgt_from AS `count`,
      CAST({COMPACTED} AS BIGINT) AS first_batch, run.newest.last_batch, run.newest.written_at
    FROM kept
    """  # noqa: S608 - names of our own
