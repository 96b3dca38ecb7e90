"""Emit a record every interval that says: this pair of clusters is configured and alive.

One query for all pairs of a process, and one batch of it for a minute of heartbeats: a batch costs
Spark some 80 ms of CPU whatever it does, which at one a second was seen in the records' p99. A
cluster that does not answer costs its own heartbeats and nobody else's.
"""

import logging
import math
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Event

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from replication.config_model import HeartbeatsConfig
from replication.errors import ClusterError
from replication.io.admin import Cluster
from replication.io.internal_topic import InternalTopic
from replication.io.session import ticks
from replication.wire import Heartbeat

log = logging.getLogger(__name__)

BATCH_SECONDS = 60.0
RETRY_SECONDS = 60.0


class Heartbeats:
    """The heartbeats of *pairs*, until *stop* is set."""

    def __init__(self, pairs: Sequence[HeartbeatsConfig], stop: Event) -> None:
        self._stop = stop
        pool = ThreadPoolExecutor(len(pairs), thread_name_prefix="heartbeats")
        self._pairs = [_Pair(it, pool) for it in pairs]

    def query(self, spark: SparkSession) -> DataStreamWriter:
        """The streaming query, ready to start. Its batches end early when *stop* is set."""
        return ticks(spark).writeStream.foreachBatch(self._batch)

    def _batch(self, _rows: DataFrame, _number: int) -> None:
        until = time.monotonic() + BATCH_SECONDS
        while (now := time.monotonic()) < until and not self._stop.is_set():
            for pair in self._pairs:
                pair.beat_if_due(now)
            self._stop.wait(max(0.0, min(it.due_at for it in self._pairs) - time.monotonic()))


class _Pair:
    """One pair's topic, made in the background: beats before that are left out."""

    def __init__(self, config: HeartbeatsConfig, pool: ThreadPoolExecutor) -> None:
        self._config, self._pool = config, pool
        self._topic: Future[InternalTopic] = pool.submit(opened, config)
        self._retry_at = math.inf
        self.due_at = time.monotonic()

    def beat_if_due(self, now: float) -> None:
        if now < self.due_at:
            return
        self.due_at = max(self.due_at + self._config.interval_seconds, now)
        if self._topic.done():
            self._beat(self._topic.exception())

    def _beat(self, error: BaseException | None) -> None:
        if error is None:
            self._topic.result().send(*record(self._config))
        elif time.monotonic() >= self._retry_at:
            self._retry_at, self._topic = math.inf, self._pool.submit(opened, self._config)
        elif self._retry_at == math.inf:
            self._retry_at = time.monotonic() + RETRY_SECONDS
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
