"""What a group reads again after a failover: our checkpoints against those of MirrorMaker 2 4.3.1.

Both programs copy the same three topics, on which groups have committed offsets, and both translate
these offsets. The true positions are counted: the copies are compared with the source record by
record, so the true position of a group is the number of source records before its offset. This
takes about two minutes:

    .local/venv/bin/python -m tests.bench.rereads

Exit code 1: this mirror gave no answer, skipped a record, read more records again than its bound,
or read a record again in the dense topic.
"""

import sys
import tempfile
import time
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, zip_longest
from pathlib import Path

from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from replication.config.home import home
from replication.demo.brokers import QUICK_COMPACTION, BrokerSettings, two_clusters
from replication.demo.topic_log import TopicLog, log_ends
from replication.demo.workload import (
    create_compacted_topic,
    create_topic,
    plain_records,
    send_transactions,
    sending,
)
from replication.flows.checkpoints import Checkpoints
from replication.flows.context import FlowContext
from replication.flows.replicate.map_writer import offset_syncs_topic
from replication.kafka.consumer_groups import Groups
from replication.mm2.wire import OffsetSync
from replication.model import Committed, Flow, TopicPartition
from replication.spark.session import jvm_of, local_session, spark_jars
from replication.state.tables import Tables
from replication.upkeep.groups import checkpoints_topic, read_checkpoints
from tests.support.flows import RunningFlow, flow_config, flow_context
from tests.support.frames import frame
from tests.support.local import Clusters
from tests.support.mirror_maker_2 import mirror_maker_2
from tests.support.running_process import ProcessError

DENSE, COMPACTED, TRANSACTIONAL = TOPICS = ("lagging", "compacted", "transactional")
DENSE_RECORDS, TRANSACTIONAL_RECORDS = 200_000, 10_000
# This gives 41 segments, in which a third of the records is gone, from everywhere in the log.
COMPACTION = {"rounds": 40, "records_each": 250, "keys": 7001}
GROUPS = {f"at-{percent}": percent for percent in (1, 10, 25, 50, 75, 90, 99, 100)}

# With aliases of its own, neither program sees the topics or the offset syncs of the other.
OURS, MM2 = Flow("ours", "ours-target"), Flow("mm2", "mm2-target")
SPARK_SLOTS = 4
MM2_SECONDS = 150.0  # Connect flushes offsets, and with them the last syncs, once a minute
SETTLED_SECONDS = 5.0  # five checkpoint intervals without a change
WIDTH_OF_A_FILE = 110

Found = dict[tuple[str, str], int]
"""A number for each group and source topic."""


@dataclass(frozen=True, slots=True)
class Row:
    """The true position of a group in the copies of a topic, and the two translated ones."""

    topic: str
    percent: int
    committed: int
    position: int
    mm2: int | None
    ours: int | None
    bound: int | None

    @property
    def is_broken(self) -> bool:
        """Whether our answer is missing, skips a record, or reads more again than its bound."""
        if self.ours is None or self.bound is None:
            return True
        allowed = 0 if self.topic == DENSE else self.bound
        return not 0 <= self.position - self.ours <= allowed


def main() -> int:
    """Prints the table and returns the exit code."""
    console = Console(width=None if sys.stdout.isatty() else WIDTH_OF_A_FILE, highlight=False)
    brokers = BrokerSettings(jars=home() / "jars" / "kafka", properties=QUICK_COMPACTION)
    with (
        tempfile.TemporaryDirectory(prefix="rereads-") as name,
        two_clusters(Path(name, "brokers"), brokers) as clusters,
    ):
        spark = local_session(spark_jars(), SPARK_SLOTS, "rereads")
        try:
            rows = _rows(spark, clusters, Path(name), console)
        finally:
            spark.stop()
    console.print(_table(rows))
    broken = [row for row in rows if row.is_broken]
    for row in broken:
        console.print(f"THIS MIRROR IS WRONG: {row}", style="bold red", markup=False)
    return 1 if broken else 0


def _rows(spark: SparkSession, clusters: Clusters, folder: Path, console: Console) -> list[Row]:
    source, target = clusters
    _fill(source.bootstrap)
    ends = log_ends(source.bootstrap, TOPICS)
    with Groups(jvm_of(spark), "source", {"bootstrap.servers": source.bootstrap}) as groups:
        for group, percent in GROUPS.items():
            offsets = {name: Committed(ends[name] * percent // 100) for name in TOPICS}
            groups.commit(group, {TopicPartition(name, 0): at for name, at in offsets.items()})
    logs = {name: TopicLog(source.bootstrap, name, "read_committed") for name in TOPICS}
    found = {topic: [record.offset for record in log.records(0)] for topic, log in logs.items()}
    for topic in TOPICS:
        console.print(f"{topic}: {len(found[topic]):,} records in {ends[topic]:,} offsets")
    ours, bounds = _our_checkpoints(spark, clusters, folder)
    theirs = _mm2_checkpoints(spark, clusters, folder, {name: len(found[name]) for name in TOPICS})
    for flow in (OURS, MM2):
        for topic, log in logs.items():
            _compare(log, TopicLog(target.bootstrap, f"{flow.source}.{topic}", log.isolation))
    console.print("both copies hold every record of the source, once and in order")
    return [
        Row(
            topic,
            percent,
            committed := ends[topic] * percent // 100,
            bisect_left(found[topic], committed),
            theirs.get((group, topic)),
            ours.get((group, topic)),
            bounds.get((group, topic)),
        )
        for topic in TOPICS
        for group, percent in GROUPS.items()
    ]


def _fill(bootstrap: str) -> None:
    now_ms = time.time_ns() // 1_000_000
    create_compacted_topic(bootstrap, COMPACTED, 1, now_ms=now_ms, **COMPACTION)
    records = plain_records(1, size_bytes=20, now_ms=now_ms)
    create_topic(bootstrap, DENSE, 1)
    with sending(bootstrap) as sender:
        sender.send_all(DENSE, islice(records, DENSE_RECORDS))
    create_topic(bootstrap, TRANSACTIONAL, 1)
    some = islice(records, TRANSACTIONAL_RECORDS)
    send_transactions(bootstrap, TRANSACTIONAL, some, records_each=20, abort_every=5)


def _our_checkpoints(spark: SparkSession, clusters: Clusters, folder: Path) -> tuple[Found, Found]:
    """Our translated offsets, and the most records that may be read again."""
    config = flow_config(*clusters, ", ".join(TOPICS), flow=OURS)
    flow = RunningFlow(spark, folder / "ours", config, "drain")
    flow.join()
    Checkpoints(flow.context).round(at_once=True)
    rows = frame(flow.tables, "checkpoints").collect()
    bounds = {(row["group"], row["topic"]): row["reread"] for row in rows}
    return _checkpoints(flow.context), bounds


def _mm2_checkpoints(
    spark: SparkSession, clusters: Clusters, folder: Path, records: Mapping[str, int]
) -> Found:
    """MirrorMaker 2's translated offsets, once all its syncs are written and nothing changes."""
    config = flow_config(*clusters, ", ".join(TOPICS), flow=MM2)
    context = flow_context(spark, Tables(spark, (folder / "unused").as_uri()), config)
    syncs = offset_syncs_topic(context)
    syncs.create()  # MM2 may start its checkpoint task before it has created this topic
    checkpoints_topic(context.target, config).create()  # read below before MM2 has created it
    found: Found = {}
    with mirror_maker_2(folder / "mm2", _mm2_properties(clusters)) as running:
        since = began = time.monotonic()
        while time.monotonic() < since + SETTLED_SECONDS:
            running.check()
            time.sleep(0.5)  # between two checks
            pairs = [OffsetSync.decode(record.key, record.value) for record in syncs.records()]
            copied = {sync.partition.topic: sync.downstream + 1 for sync in pairs}
            newest = _checkpoints(context)
            if copied != records or not newest or newest != found:
                found, since = newest, time.monotonic()
            if time.monotonic() > began + MM2_SECONDS:
                raise ProcessError(f"not done after {MM2_SECONDS} s: {copied} of {records}")
    return found


def _checkpoints(context: FlowContext) -> Found:
    newest = read_checkpoints(checkpoints_topic(context.target, context.config))
    prefix = f"{context.config.flow.source}."
    return {
        (group, tp.topic.removeprefix(prefix)): checkpoint.downstream
        for (group, tp), checkpoint in newest.items()
    }


def _mm2_properties(clusters: Clusters) -> dict[str, str]:
    """The properties of a user's file. All settings of offset syncs have their defaults."""
    source, target = clusters
    return {
        "clusters": f"{MM2.source}, {MM2.target}",
        f"{MM2.source}.bootstrap.servers": source.bootstrap,
        f"{MM2.target}.bootstrap.servers": target.bootstrap,
        f"{MM2}.enabled": "true",
        f"{MM2}.topics": ", ".join(TOPICS),
        f"{MM2.source}.consumer.isolation.level": "read_committed",
        "emit.checkpoints.interval.seconds": "1",
        "refresh.topics.interval.seconds": "1",
        "refresh.groups.interval.seconds": "1",
        "emit.heartbeats.enabled": "false",
        "sync.topic.acls.enabled": "false",  # the brokers have no authorizer
        "offset.storage.partitions": "1",  # the default of 25 delays the start
    }


def _compare(log: TopicLog, copy: TopicLog) -> None:
    """Raises ProcessError unless the copy has the records of the source in order, from offset 0."""
    for number, (record, copied) in enumerate(zip_longest(log.records(0), copy.records(0))):
        there = copied is not None and (copied.offset, copied.content)
        if record is None or there != (number, record.content):
            raise ProcessError(f"{copy.topic}: record {number} is {copied}, not {record}")


def _table(rows: Sequence[Row]) -> Table:
    table = Table(title="Records read again after a failover", title_justify="left")
    table.add_column("topic")
    for heading in ("group at", "offset", "MM2 read again", "ours read again", "our bound"):
        table.add_column(heading, justify="right")
    for topic in TOPICS:
        of_topic = [row for row in rows if row.topic == topic]
        for row in of_topic:
            table.add_row(topic, f"{row.percent} %", f"{row.committed:,}", *_figures([row]))
        table.add_row(topic, "total", "", *_figures(of_topic), style="bold", end_section=True)
    table.add_row("all", "total", "", *_figures(rows), style="bold")
    return table


def _figures(rows: Sequence[Row]) -> tuple[str, str, str]:
    mm2 = [(row.position, row.mm2) for row in rows]
    ours = [(row.position, row.ours) for row in rows]
    return _again(mm2), _again(ours), f"{sum(row.bound or 0 for row in rows):,}"


def _again(answers: Sequence[tuple[int, int | None]]) -> str:
    """The sum of records read again, from true and translated positions; warns of skipped ones."""
    known = [position - offset for position, offset in answers if offset is not None]
    parts = [f"{sum(count for count in known if count > 0):,}"] if known else []
    if skipped := -sum(count for count in known if count < 0):
        parts.append(f"[bold red]SKIPS {skipped:,}[/]")
    if missing := len(answers) - len(known):
        parts.append("no checkpoint" if not known else f"{missing} without")
    return ", ".join(parts)


if __name__ == "__main__":
    sys.exit(main())
