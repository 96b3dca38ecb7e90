"""Emit a record every interval that says: this pair of clusters is configured and alive.

One query for all pairs of a process: a tick costs Spark some 40 ms of CPU whatever it does, and
there are as many pairs as clusters squared. The tick only produces; a cluster that does not answer
costs its own heartbeats and nobody else's.
"""

import logging
import math
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from replication.config_model import HeartbeatsConfig
from replication.errors import ClusterError
from replication.io.admin import Cluster
from replication.io.internal_topic import InternalTopic
from replication.io.session import ticks
from replication.wire import Heartbeat

log = logging.getLogger(__name__)

RETRY_SECONDS = 60.0


class Heartbeats:
    """The heartbeats of *pairs*."""

    def __init__(self, pairs: Sequence[HeartbeatsConfig]) -> None:
        self._seconds = math.gcd(*(it.interval_seconds for it in pairs))
        self._pool = ThreadPoolExecutor(len(pairs), thread_name_prefix="heartbeats")
        self._pairs = [_Pair(it, self._pool) for it in pairs]

    def query(self, spark: SparkSession) -> DataStreamWriter:
        """The streaming query, ready to start."""

        def tick(_rows: DataFrame, number: int) -> None:
            for pair in self._pairs:
                if number * self._seconds % pair.config.interval_seconds == 0:
                    pair.beat()

        rows = ticks(spark).writeStream.foreachBatch(tick)
        return rows.trigger(processingTime=f"{self._seconds} seconds")


class _Pair:
    """One pair's topic, made in the background: beats before that are left out."""

    def __init__(self, config: HeartbeatsConfig, pool: ThreadPoolExecutor) -> None:
        self.config, self._pool = config, pool
        self._topic: Future[InternalTopic] = pool.submit(opened, config)
        self._retry_at = math.inf

    def beat(self) -> None:
        if not self._topic.done():
            return
        error = self._topic.exception()
        if error is None:
            self._topic.result().send(*record(self.config))
        elif time.monotonic() >= self._retry_at:
            self._retry_at, self._topic = math.inf, self._pool.submit(opened, self.config)
        elif self._retry_at == math.inf:
            self._retry_at = time.monotonic() + RETRY_SECONDS
            log.warning("flow=%s no heartbeats for a minute: %s", self.config.flow, error)


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
