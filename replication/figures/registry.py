"""Every figure that may be shown of a flow: its name, kind, unit, labels and meaning. Pure.

Prometheus' metrics, the documents in JSON, the status topic and the tables in conf/docs take their
names from here, or a test compares them. A figure that is not here cannot be shown.
"""

from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal, get_args

from replication.model import EventKind, LossCause, Part

PREFIX: Final = "kafka_replication_"
"""Before each name in Prometheus."""

Kind = Literal["counter", "gauge", "histogram", "info"]
Unit = Literal[
    "", "seconds", "bytes", "records", "offsets", "records_per_second", "bytes_per_second"
]
Label = Literal[
    "answer",
    "cause",
    "cluster",
    "code",
    "group",
    "host",
    "kind",
    "mode",
    "part",
    "partition",
    "reason",
    "runs",
    "scope",
    "share",
    "state",
    "table",
    "topic",
    "version",
    "what",
]
"""The labels beside `source` and `target`, which every figure has. `topic` is the upstream one."""

Level = Literal["flow", "topic", "partition", "group"]
"""What a plain value of a figure is about, in an observation and its document."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure.

    Args:
        name: Without `PREFIX`.
        kind: As in Prometheus.
        unit: The end of the name, before the ``_total`` of a counter; "" for a plain number.
        meaning: One sentence.
        labels: Beside `source` and `target`.
        mm2: What MirrorMaker 2 calls it; "" if it has none.
        srm: What Streams Replication Manager, or another tool, calls it; the same.
        levels: Where an observation has it as a plain value: not with labels, nor as a histogram.
        is_metric: Whether Prometheus has it. It computes rates by itself, and knows a topic's or
            a group's part of a flow by its labels.
    """

    name: str
    kind: Kind
    unit: Unit
    meaning: str
    labels: tuple[Label, ...] = ()
    mm2: str = ""
    srm: str = ""
    levels: tuple[Level, ...] = ()
    is_metric: bool = True


WHOLE_FLOW: Final = "*"
"""The `scope` of a limit for all topics of a flow. It is no regex, as any other scope is."""

_FLOW: Final[tuple[Level, ...]] = ("flow",)
_BOTH: Final[tuple[Level, ...]] = ("flow", "topic")
_GROUP: Final[tuple[Level, ...]] = ("group",)

FIGURES: Final[tuple[Figure, ...]] = (
    Figure(
        "info", "info", "", "1; its labels name the process that owns the flow.",
        ("mode", "runs", "host", "version"), mm2="worker id",
    ),
    Figure(
        "flow_state", "gauge", "", "1 for the present state, 0 for the others.", ("state",),
        mm2="connector status", srm="herder status",
    ),
    Figure("condition", "gauge", "", "1 while the condition holds.", ("code",)),
    Figure("observed_timestamp_seconds", "gauge", "seconds", "When these figures were measured."),
    Figure("started_timestamp_seconds", "gauge", "seconds", "When the process took the flow."),
    Figure(
        "ended_timestamp_seconds", "gauge", "seconds", "When the flow ended; absent while it runs.",
    ),
    Figure("exit_code", "gauge", "", "The exit code of the flow; absent while it runs."),
    Figure("lease_held", "gauge", "", "1 if this process owns the part of the flow.", ("part",)),
    Figure(
        "cluster_reachable", "gauge", "", "0 while the cluster does not answer.", ("cluster",),
        srm="MSK AuthError, Redpanda client_errors",
    ),
    Figure("generation", "gauge", "", "The number of the newest generation.", mm2="generation"),
    Figure(
        "restarts_total", "counter", "", "Queries that failed and were started again.", ("part",),
        mm2="task failures",
    ),
    Figure("events_total", "counter", "", "Rows of the table `events`.", ("kind",)),
    Figure(
        "records_total", "counter", "records", "Records that the target has acknowledged.",
        ("topic",), mm2="record-count, record-rate", levels=_BOTH,
    ),
    Figure(
        "bytes_total", "counter", "bytes", "Bytes of the keys and values of these records.",
        ("topic",), mm2="byte-count, byte-rate (value only)", srm="byte-rate", levels=_BOTH,
    ),
    Figure(
        "records_per_second", "gauge", "records_per_second",
        "Records that the target has acknowledged, over the last 60 s.",
        mm2="record-rate", levels=_BOTH, is_metric=False,
    ),
    Figure(
        "bytes_per_second", "gauge", "bytes_per_second",
        "Bytes of their keys and values, over the last 60 s.",
        mm2="byte-rate", srm="byte-rate", levels=_BOTH, is_metric=False,
    ),
    Figure(
        "lag_records", "gauge", "records",
        "Source offsets that the target has not acknowledged, of all that is to be copied, also of "
        "what is paused or set aside: an upper bound of records.",
        ("topic",), srm="replication-records-lag", levels=("flow", "topic", "partition"),
    ),
    Figure(
        "lag_seconds", "gauge", "seconds",
        "How long the oldest record that is not on the target has been on the source; 0 if none "
        "is. The greatest over the partitions.",
        ("topic",), mm2="record-age-ms-max (at poll)", levels=("flow", "topic", "partition"),
    ),
    Figure(
        "unpaused_lag_seconds", "gauge", "seconds",
        "The greatest `lag_seconds` of partitions that nobody has paused, and that are not "
        "`catching-up`; absent where all are.",
        levels=_BOTH,
    ),
    Figure(
        "lag_unknown_partitions", "gauge", "",
        "Partitions to copy whose lag is not known: nothing of them was ever copied, or their end "
        "or the age of what waits cannot be told. All that is said of lag and RPO is at least that "
        "while it is not 0. A topic of which no partition is known counts as one.",
        levels=("flow", "topic", "partition", "group"),
    ),
    Figure(
        "lag_bytes", "gauge", "bytes",
        "An estimate: `lag_records` times the mean size of a record over the last 10 minutes.",
        ("topic",), levels=_BOTH,
    ),
    Figure(
        "catch_up_seconds", "gauge", "seconds",
        "Until the backlog is gone at the rates of the last 60 s; absent if it does not shrink.",
        levels=_FLOW,
    ),
    Figure(
        "rpo_seconds", "gauge", "seconds",
        "What would be lost if the source were gone now, as time: the greatest `lag_seconds`.",
        levels=("flow", "topic", "group"), is_metric=False,
    ),
    Figure(
        "rpo_records", "gauge", "records",
        "What would be lost if the source were gone now: the sum of `lag_records`.",
        levels=("flow", "topic", "group"), is_metric=False,
    ),
    Figure(
        "copied_until_timestamp_seconds", "gauge", "seconds",
        "The timestamp of the newest record copied: the target is the source as of then.",
        ("topic",), levels=("topic", "partition"),
    ),
    Figure(
        "last_copy_timestamp_seconds", "gauge", "seconds",
        "When an acknowledgement was noticed last.", levels=_FLOW,
    ),
    Figure(
        "latency_seconds", "histogram", "seconds",
        "From the timestamp of a record to its acknowledgement by the target; only records that "
        "are not older than the start of their generation.",
        mm2="replication-latency-ms, -min, -max, -avg", srm="replication-latency-ms",
    ),
    Figure(
        "topic_latency_seconds", "gauge", "seconds",
        "How long the share of the records of the last 60 s took at most; of the 100 topics with "
        "the most records.",
        ("topic", "share"), mm2="replication-latency-ms, per partition",
    ),
    Figure(
        "transfer_seconds", "histogram", "seconds",
        "From handing a record over to the producer to its acknowledgement; by one clock.",
        mm2="request-latency-avg of the producer",
    ),
    Figure(
        "in_flight_records", "gauge", "records", "Records that are sent and not acknowledged.",
        mm2="source-record-active-count", levels=_FLOW,
    ),
    Figure(
        "schemas_waiting", "gauge", "",
        "Topics whose next record waits for an id of the target's schema registry.",
        levels=_FLOW,
    ),
    Figure(
        "limit_bytes_per_second", "gauge", "bytes_per_second",
        "What may be copied, where a limit is in force; `*` is the whole flow.", ("scope",),
    ),
    Figure(
        "limit_used_bytes_per_second", "gauge", "bytes_per_second",
        "What of it is used, over the last seconds.", ("scope",),
    ),
    Figure(
        "limit_records_per_second", "gauge", "records_per_second",
        "What may be copied, where a limit is in force; `*` is the whole flow.", ("scope",),
    ),
    Figure(
        "limit_used_records_per_second", "gauge", "records_per_second",
        "What of it is used, over the last seconds.", ("scope",),
    ),
    Figure(
        "limit_waiting", "gauge", "", "1 while records wait for the limit.", ("scope",),
    ),
    Figure(
        "partitions", "gauge", "",
        "How many partitions are in this state. A topic of which no partition is known counts as "
        "one.", ("state",), mm2="assigned partitions",
    ),
    Figure(
        "topic_set_aside", "gauge", "", "1 for each topic that is set aside, at most 100.",
        ("topic", "reason"), srm="topic FAULTED (Redpanda)",
    ),
    Figure("topic_paused", "gauge", "", "1 for each topic with paused partitions.", ("topic",)),
    Figure(
        "given_up_offsets_total", "counter", "offsets",
        "Source offsets lost or repeated by a decision; the events name the topics.", ("cause",),
    ),
    Figure(
        "given_up_timestamp_seconds", "gauge", "seconds",
        "When such a decision was made last, also one whose offsets nobody can count; 0 if none "
        "was since the process began.", ("cause",),
    ),
    Figure(
        "dead_letters", "gauge", "",
        "Records that could not be copied, and wait as dead letters.", levels=_FLOW,
    ),
    Figure(
        "retention_headroom_seconds", "gauge", "seconds",
        "Until the source deletes records that are not copied; only of topics that lag.",
        ("topic",), levels=_BOTH,
    ),
    Figure(
        "partition_lag_records", "gauge", "records", "`lag_records` of one partition.",
        ("topic", "partition"), mm2="records-lag of the consumer",
    ),
    Figure(
        "partition_lag_seconds", "gauge", "seconds", "`lag_seconds` of one partition.",
        ("topic", "partition"),
    ),
    Figure(
        "position", "gauge", "",
        "The next source offset of a partition that the target has not acknowledged.",
        levels=("partition",), is_metric=False,
    ),
    Figure(
        "source_log_end", "gauge", "", "The offset of the next record on the source.",
        levels=("partition",), is_metric=False,
    ),
    Figure(
        "group_lag_records", "gauge", "records",
        "Records on the source that the group had not committed at the last round of checkpoints.",
        ("group",), levels=_GROUP,
    ),
    Figure(
        "group_position_age_seconds", "gauge", "seconds",
        "How long the group's present commit on the source has had no checkpoint.",
        ("group",), srm="MSK ConsumerGroupOffsetSyncFailure", levels=_GROUP,
    ),
    Figure(
        "group_reread_records", "gauge", "records",
        "What the group would read again after a failover now: the sum of the bounds.",
        ("group",), levels=_GROUP,
    ),
    Figure(
        "group_unreplicated_records", "gauge", "records",
        "`lag_records` of the partitions that the group reads: what it would not find on the "
        "target.",
        ("group",), levels=_GROUP,
    ),
    Figure(
        "group_partitions", "gauge", "", "Partitions of the group by the answer of a translation.",
        ("group", "answer"),
    ),
    Figure(
        "group_blocked", "gauge", "",
        "1 if the group's offsets are to be synchronized, but it is active on the target.",
        ("group",), levels=_GROUP,
    ),
    Figure(
        "checkpoints_total", "counter", "", "Checkpoints written.",
        mm2="MirrorCheckpointConnector's count", levels=_FLOW,
    ),
    Figure(
        "checkpoint_round_timestamp_seconds", "gauge", "seconds",
        "When the last full round of checkpoints ended.", levels=_FLOW,
    ),
    Figure(
        "checkpoint_seconds", "histogram", "seconds",
        "From the first sight of a commit to the acknowledgement of its checkpoint.",
        mm2="checkpoint-latency-ms, -min, -max, -avg", srm="checkpoint-latency-ms",
    ),
    Figure(
        "heartbeat_timestamp_seconds", "gauge", "seconds",
        "The timestamp of the newest heartbeat on the target.", srm="DataDog heartbeat_lag_seconds",
        levels=_FLOW,
    ),
    Figure(
        "heartbeat_latency_seconds", "gauge", "seconds",
        "`latency_seconds` of the topic `heartbeats`, its median over the last 60 s.", levels=_FLOW,
    ),
    Figure(
        "map_written_timestamp_seconds", "gauge", "seconds",
        "When the offset map was written last.", mm2="offset-sync age", levels=_FLOW,
    ),
    Figure(
        "map_age_seconds", "gauge", "seconds",
        "How old the offset map is, if anything was copied since it was written; else 0.",
        levels=_FLOW, is_metric=False,
    ),
    Figure(
        "report_age_seconds", "gauge", "seconds", "The longest silence of a living executor.",
        levels=_FLOW,
    ),
    Figure(
        "state_write_failures_total", "counter", "", "Commits to a Delta table that failed.",
        ("table",),
    ),
    Figure(
        "state_write_seconds_total", "counter", "seconds", "Time spent in commits.", ("table",),
        mm2="offset-commit-avg-time-ms",
    ),
    Figure("state_writes_total", "counter", "", "Commits to a Delta table.", ("table",)),
    Figure("executors", "gauge", "", "Executors of Spark that live.", ("state",),
           mm2="worker count"),
    Figure(
        "source_tasks", "gauge", "", "Tasks that read for the flow, by their Kafka source.",
        ("kind",), mm2="task count",
    ),
    Figure("task_slots", "gauge", "", "Task slots of the executors, used and free.", ("state",)),
    Figure(
        "clock_skew_seconds", "gauge", "seconds",
        "How far the cluster's clock is ahead of the driver's.", ("cluster",),
    ),
    Figure(
        "throttle_seconds", "gauge", "seconds",
        "How long a quota of the cluster makes a request of the flow's clients wait, on average of "
        "the last minute; absent where none does.", ("cluster",),
        mm2="fetch-throttle-time-avg, produce-throttle-time-avg",
    ),
    Figure("jvm_heap_bytes", "gauge", "bytes", "The heap of the driver's JVM.", ("kind",),
           mm2="JVM panels"),
    Figure(
        "jvm_gc_seconds_total", "counter", "seconds", "Garbage collection in the driver's JVM.",
        mm2="JVM panels", levels=_FLOW,
    ),
    Figure(
        "jvm_cpu_seconds_total", "counter", "seconds", "CPU time of the driver's JVM.",
        mm2="JVM panels", levels=_FLOW,
    ),
    Figure("metrics_limited", "gauge", "", "1 if a limit of series has cut something.", ("what",)),
)  # fmt: skip

BY_NAME: Final = MappingProxyType({figure.name: figure for figure in FIGURES})

Table = Literal[
    "offset_runs",
    "events",
    "topics",
    "clusters",
    "first_topics",
    "topic_configs",
    "topic_acls",
    "topic_deletions",
    "schema_ids",
    "dead_letters",
    "checkpoints",
    "leases",
    "executions",
    "changes",
    "figures",
]
"""The Delta tables."""

BOUNDED: Final = MappingProxyType[str, tuple[str, ...]](
    {
        "restarts_total": get_args(Part),
        "events_total": get_args(EventKind),
        "given_up_offsets_total": get_args(LossCause),
        "given_up_timestamp_seconds": get_args(LossCause),
        "state_write_failures_total": get_args(Table),
        "state_write_seconds_total": get_args(Table),
        "state_writes_total": get_args(Table),
    }
)
"""Figures with one bounded label, and its values. Each exists with 0 from the start: a series that
appears with its first event never makes Prometheus' ``increase`` fire."""


def names_at(level: Level) -> tuple[str, ...]:
    """Returns the names of the figures that an observation has as plain values at *level*."""
    return _AT[level]


_AT: Final = {
    level: tuple(figure.name for figure in FIGURES if level in figure.levels)
    for level in get_args(Level)
}
