"""Emits heartbeats: a record per interval for each pair of clusters that is configured.

One query serves all pairs of a process, and one batch lasts a minute. A batch costs about 80 ms of
CPU; one per second showed up in the records' p99 latency. A cluster that does not answer loses its
own heartbeats only.
"""

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from threading import Event, Thread

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from replication.config.group_settings import HeartbeatsConfig
from replication.errors import ReplicationError
from replication.kafka.cluster import Cluster
from replication.kafka.diagnosis import InterruptedCallError
from replication.kafka.internal_topic import InternalTopic
from replication.log import Log
from replication.mm2.wire import Heartbeat
from replication.spark.counting import trigger_stream

log = Log(__name__)

BATCH_SECONDS = 60.0
RETRY_SECONDS = 60.0
HEAD_START_SECONDS = 3.0


class Heartbeats:
    """Emits the heartbeats of *pairs* until *stop* is set."""

    def __init__(self, pairs: Sequence[HeartbeatsConfig], stop: Event) -> None:
        self._stop = stop
        self._pairs = [_Pair(pair) for pair in pairs]

    def query(self, spark: SparkSession) -> DataStreamWriter:
        """Returns the query, not yet started. Its batches end early when *stop* is set."""
        return trigger_stream(spark).writeStream.foreachBatch(self._batch)

    def _batch(self, _rows: DataFrame, _number: int) -> None:
        until = time.monotonic() + BATCH_SECONDS
        while (now := time.monotonic()) < until and not self._stop.is_set():
            for pair in self._pairs:
                pair.beat_if_due(now)
            self._stop.wait(max(0.0, min(pair.due_at for pair in self._pairs) - time.monotonic()))


class _Pair:
    """One pair. Its topic is created in the background; heartbeats due before that are skipped."""

    def __init__(self, config: HeartbeatsConfig) -> None:
        self._config = config
        self.log = log.bind(config.flow)
        self._topic: InternalTopic | None = None
        self._waits_for = ""
        self.due_at = time.monotonic()
        self._open_in_background()

    def beat_if_due(self, now: float) -> None:
        if now < self.due_at:
            return
        self.due_at = max(self.due_at + self._config.interval_seconds, now)
        if self._topic is not None:
            try:
                self._topic.send(*record(self._config))
            except InterruptedCallError as error:
                self.log.info("heartbeats_interrupted", text=error)
            except ReplicationError as error:
                self._topic = None
                self._retry_at = time.monotonic() + RETRY_SECONDS
                self._report(error)
        elif not self._opening.is_alive() and now >= self._retry_at:
            self._open_in_background()

    def _open_in_background(self) -> None:
        self._retry_at = time.monotonic() + RETRY_SECONDS
        # a daemon, so that a cluster that does not answer cannot delay the end of the process
        self._opening = Thread(target=self._open, name=f"{self._config.flow} beat", daemon=True)
        self._opening.start()

    def _open(self) -> None:
        try:
            cluster = Cluster(self._config.alias, self._config.admin)
            self._topic = open_topic(self._config, cluster)
            if self._waits_for:
                self.log.info("heartbeats_resumed")
            self._waits_for = ""
        except ReplicationError as error:
            self._report(error)
        except Exception:  # the thread's edge; another one tries again
            text = "internal error, please report it"
            self.log.exception("heartbeats_unavailable", text=text)

    def _report(self, error: ReplicationError) -> None:
        if error.cause == self._waits_for:
            return
        self._waits_for = error.cause
        self.log.warning("heartbeats_unavailable", retry_seconds=RETRY_SECONDS, text=error)


@contextmanager
def emitting_once(pairs: Sequence[HeartbeatsConfig]) -> Iterator[None]:
    """Emits one heartbeat for each of *pairs* beside the block, for a drain.

    The block begins with them, so that a flow copies those of its source, but a cluster that does
    not answer delays neither the other pairs nor the block.
    """
    with ThreadPoolExecutor(len(pairs), "heartbeat") as pool:
        wait([pool.submit(emit_once, pair) for pair in pairs], HEAD_START_SECONDS)
        yield


def emit_once(config: HeartbeatsConfig) -> None:
    """Emits one heartbeat, for a drain; logs a warning if that fails."""
    logger = log.bind(config.flow)
    try:
        with Cluster(config.alias, config.admin) as cluster:
            open_topic(config, cluster).write([record(config)])
    except ReplicationError as error:
        logger.warning("heartbeat_failed", text=error)
    except Exception:  # the thread's edge: nothing above would see it
        text = "internal error, please report it"
        logger.exception("heartbeat_failed", text=text)


def open_topic(config: HeartbeatsConfig, cluster: Cluster) -> InternalTopic:
    """Opens the topic of a pair's heartbeats; creates it if it is missing."""
    topic = InternalTopic(
        cluster,
        config.topic,
        producer=config.producer,
        consumer=config.admin,
        replication_factor=config.replication_factor,
    )
    topic.create()
    return topic


def record(config: HeartbeatsConfig) -> tuple[bytes, bytes]:
    """Returns the key and value of a heartbeat with the current time."""
    heartbeat = Heartbeat(config.flow.source, config.flow.target, time.time_ns() // 1_000_000)
    return heartbeat.key(), heartbeat.value()
