"""What the Delta tables are created with, and whether a table is still one of them. Pure."""

from collections.abc import Mapping
from typing import Final

SCHEMAS = {
    "offset_runs": (
        "flow string, generation bigint, topic string, partition int, topic_id string, "
        "src_from bigint, src_until bigint, tgt_from bigint, count bigint, "
        "first_batch bigint, last_batch bigint, written_at timestamp, source_epoch int, "
        "target_epoch int"
    ),
    "events": (
        "flow string, at timestamp, kind string, group string, topic string, partition int, "
        "offset_from bigint, offset_until bigint, reaction string, text string, cluster string"
    ),
    "topics": (
        "flow string, generation bigint, topic string, remote_topic string, topic_id string, "
        "remote_id string, partitions int, transform string, at timestamp"
    ),
    "clusters": "flow string, alias string, cluster_id string, at timestamp",
    "first_topics": (
        "flow string, topic string, topic_id string, partition int, end_offset bigint, at timestamp"
    ),
    "topic_configs": (
        "flow string, topic string, remote_topic string, remote_id string, key string, "
        "value string, previous string, rejection string, at timestamp"
    ),
    "topic_acls": (
        "flow string, action string, remote_topic string, pattern string, principal string, "
        "host string, operation string, permission string, rejection string, at timestamp"
    ),
    "topic_deletions": (
        "flow string, topic string, topic_id string, remote_topic string, remote_id string, "
        "state string, at timestamp"
    ),
    "schema_ids": (
        "flow string, topic string, part string, source_id bigint, target_id bigint, type string, "
        "hash string, subject string, version int, at timestamp"
    ),
    "dead_letters": (
        "flow string, topic string, topic_id string, partition int, source_offset bigint, "
        "state string, stage string, reason string, place string, is_read boolean, "
        "timestamp_ms bigint, key binary, value binary, headers string, at timestamp"
    ),
    "checkpoints": (
        "flow string, group string, topic string, partition int, remote_topic string, "
        "upstream bigint, downstream bigint, exact boolean, reread bigint, metadata string, "
        "at timestamp"
    ),
    "leases": (
        "flow string, epoch bigint, owner string, host string, since timestamp, "
        "renewed timestamp, released boolean, machine string, executors string, silence double"
    ),
    "executions": (
        "flow string, topic string, started_at timestamp, ended_at timestamp, ending string, "
        "exit_code int, cause string, job string, mode string, host string, epoch bigint, "
        "records bigint, bytes bigint, set_aside int, source_end bigint, source_stable bigint, "
        "reached bigint, behind bigint, newest_record timestamp"
    ),
    "changes": (
        "flow string, number bigint, id string, what string, items string, scope string, "
        "by string, host string, at timestamp, reason string, applied_at timestamp, "
        "generation bigint, effect string"
    ),
    "figures": (
        "flow string, at timestamp, seconds double, topic string, state string, records bigint, "
        "bytes bigint, lag_records bigint, lag_seconds double, latency_p50 double, "
        "latency_p99 double, latency_max double, transfer_p99 double, in_flight bigint, "
        "restarts bigint, given_up bigint, paused bigint, unpaused_lag_seconds double"
    ),
}
"""The columns of each table, as in SQL."""

WHOLE: Final = frozenset({"executions", "figures", "leases"})
"""Tables that are not partitioned by ``flow``: a commit for many flows writes one file."""

LATER: Final = frozenset(
    {
        "cluster",
        "executors",
        "last_batch",
        "machine",
        "partitions",
        "paused",
        "reaction",
        "remote_id",
        "silence",
        "source_epoch",
        "target_epoch",
        "topic_id",
        "transform",
        "unpaused_lag_seconds",
    }
)
"""Columns that tables of earlier versions do not have."""

_WHOLE: Final = frozenset(
    {"bigint", "int", "smallint", "tinyint", "long", "integer", "short", "byte"}
)

PROPERTIES = {
    # Delta removes the log of whole days, so a day of it is up to two days of commits.
    "delta.logRetentionDuration": "interval 1 day",
    "delta.deletedFileRetentionDuration": "interval 1 day",
    "delta.checkpointInterval": "10",  # commits; delta-rs would read up to a hundred of them
}
"""How long Delta keeps what a table no longer needs. An operator's own value stays."""

_EACH_RUN: Final = {"offset_runs", "checkpoints", "leases", "executions"}
"""Tables that each run of a job commits to, however little it did."""

_SHORT: Final = {
    "delta.logRetentionDuration": "interval 1 hour",
    "delta.deletedFileRetentionDuration": "interval 1 hour",
    "delta.checkpointInterval": "100",  # merging, which comes sooner, writes a checkpoint
}


def short_properties(table: str) -> Mapping[str, str]:
    """Returns the properties of *table* where delta-rs writes it.

    Of a table that changes with each run, a day of removed files would fill Delta's checkpoints.
    """
    return _SHORT if table in _EACH_RUN else PROPERTIES


def outdated_properties(wanted: Mapping[str, str], known: Mapping[str, str]) -> dict[str, str]:
    """Returns what of *wanted* a table with properties *known* lacks, or has as earlier versions.

    A value of an operator's own stays.
    """
    return {
        key: value
        for key, value in wanted.items()
        if known.get(key) in {None, PROPERTIES[key]} - {value}
    }


SESSION_SETTINGS = {
    **{f"spark.databricks.delta.properties.defaults.{k[6:]}": v for k, v in PROPERTIES.items()},
    "spark.databricks.delta.vacuum.logging.enabled": "false",  # else VACUUM commits twice
    # VACUUM lists the folder in as many tasks, by default 10 000
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "4",
}
"""Of sessions that create and maintain tables."""


def odd_column(table: str, columns: Mapping[str, str]) -> str:
    """Returns what keeps a table with *columns* from being read as *table*; empty if nothing does.

    Further columns do no harm.

    Args:
        table: A key of `SCHEMAS`.
        columns: The type of each column that is there, in the words of Spark or of delta-rs.
    """
    for column in SCHEMAS[table].split(", "):
        name, kind = column.split()
        found = columns.get(name)
        if found is None:
            if name not in LATER:
                return f"it has no column {name}"
        elif found != kind and not {found, kind} <= _WHOLE:
            return f"its column {name} is {found} instead of {kind}"
    return ""
