"""Emit a record every interval that says: this pair of clusters is configured and alive.

One query for all pairs of a process, and one batch of it for a minute of heartbeats: a batch costs
Spark some 80 ms of CPU whatever it does, which at one a second was seen in the records' p99. A
cluster that does not answer costs its own heartbeats and nobody else's.
"""

import logging
import time
from collections.abc import Sequence
from threading import Event, Thread

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from replication.config.tree import HeartbeatsConfig
from replication.errors import ClusterError
from replication.kafka.cluster import Cluster
from replication.kafka.internal_topic import InternalTopic
from replication.mm2.wire import Heartbeat
from replication.spark.frames import trigger_stream

log = logging.getLogger(__name__)

BATCH_SECONDS = 60.0
RETRY_SECONDS = 60.0


class Heartbeats:
    """The heartbeats of *pairs*, until *stop* is set."""

    def __init__(self, pairs: Sequence[HeartbeatsConfig], stop: Event) -> None:
        self._stop = stop
        self._pairs = [_Pair(it) for it in pairs]

    def query(self, spark: SparkSession) -> DataStreamWriter:
        """The streaming query, ready to start. Its batches end early when *stop* is set."""
        return trigger_stream(spark).writeStream.foreachBatch(self._batch)

    def _batch(self, _rows: DataFrame, _number: int) -> None:
        until = time.monotonic() + BATCH_SECONDS
        while (now := time.monotonic()) < until and not self._stop.is_set():
            for pair in self._pairs:
                pair.beat_if_due(now)
            self._stop.wait(max(0.0, min(it.due_at for it in self._pairs) - time.monotonic()))


class _Pair:
    """One pair's topic, made in the background: beats before that are left out."""

    def __init__(self, config: HeartbeatsConfig) -> None:
        self._config = config
        self._topic: InternalTopic | None = None
        self.due_at = time.monotonic()
        self._open_in_background()

    def beat_if_due(self, now: float) -> None:
        if now < self.due_at:
            return
        self.due_at = max(self.due_at + self._config.interval_seconds, now)
        if self._topic is not None:
            self._topic.send(*record(self._config))
        elif not self._opening.is_alive() and now >= self._retry_at:
            self._open_in_background()

    def _open_in_background(self) -> None:
        self._retry_at = time.monotonic() + RETRY_SECONDS
        # a daemon: a cluster that does not answer must not hold up the end of the process
        self._opening = Thread(target=self._open, name=f"{self._config.flow} beat", daemon=True)
        self._opening.start()

    def _open(self) -> None:
        try:
            self._topic = opened(self._config)
        except ClusterError as error:
            log.warning("flow=%s no heartbeats for a minute: %s", self._config.flow, error)


def emit_once(config: HeartbeatsConfig) -> None:
    """One heartbeat, for a drain; warns where the cluster does not take it."""
    try:
        opened(config).write([record(config)])
    except ClusterError as error:
        log.warning("flow=%s no heartbeat: %s", config.flow, error)


def opened(config: HeartbeatsConfig) -> InternalTopic:
    """The topic of a pair's heartbeats; created where it is missing.

    Raises:
        ClusterError: The cluster does not answer, or refuses the topic.
    """
    topic = InternalTopic(
        Cluster(config.alias, config.admin),
        config.topic,
        producer=config.producer,
        consumer=config.admin,
        replication_factor=config.replication_factor,
    )
    topic.create()
    return topic


def record(config: HeartbeatsConfig) -> tuple[bytes, bytes]:
    """Key and value of a heartbeat of now."""
    heartbeat = Heartbeat(config.flow.source, config.flow.target, time.time_ns() // 1_000_000)
    return heartbeat.key(), heartbeat.value()
