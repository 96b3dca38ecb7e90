"""A flow running in this process, for tests that need no process of its own."""

import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from replication.config.keys import REPLICATION_FACTORS
from replication.config.parse import parse
from replication.config.tree import FlowConfig, MirrorConfig
from replication.demo.brokers import Broker
from replication.flows.context import FlowContext
from replication.flows.replicate.loop import replicate
from replication.kafka.cluster import Cluster
from replication.model import Flow, Mode
from replication.state.tables import Tables
from replication.topics.topic_plan import TopicPlan

FLOW = Flow("A", "B")
TIMEOUT_SECONDS = 60


def flow_config(
    source: Broker,
    target: Broker,
    topics: str,
    settings: Mapping[str, str] | None = None,
    flow: Flow = FLOW,
) -> FlowConfig:
    """A flow between two brokers, as a user's file would give it."""
    return mirror_config(source, target, topics, settings, flow).flows[0]


def mirror_config(
    source: Broker,
    target: Broker,
    topics: str,
    settings: Mapping[str, str] | None = None,
    flow: Flow = FLOW,
) -> MirrorConfig:
    """The whole configuration of such a flow."""
    return parse(
        "test.yaml",
        {
            "clusters": f"{flow.source}, {flow.target}",
            f"{flow.source}.bootstrap.servers": source.bootstrap,
            f"{flow.target}.bootstrap.servers": target.bootstrap,
            f"{flow}.enabled": "true",
            f"{flow}.topics": topics,
            **dict.fromkeys(REPLICATION_FACTORS, "1"),
            "heartbeats.replication.enabled": "false",  # other tests emit them, too
            "refresh.topics.interval.seconds": "1",
            "replication.realtime.batch.seconds": "5",
            f"{flow.source}.consumer.isolation.level": "read_committed",
            **(settings or {}),
        },
        default_state_dir="file:///unused",
    )


def flow_context(spark: SparkSession, tables: Tables, config: FlowConfig) -> FlowContext:
    """What a flow works with."""
    return FlowContext(
        config,
        spark,
        tables,
        Cluster(config.source.alias, config.source.admin),
        Cluster(config.target.alias, config.target.admin),
    )


class RunningFlow:
    """`replicate` in a thread. `stop` it; a failure of the flow is raised there."""

    def __init__(self, spark: SparkSession, state: Path, config: FlowConfig, mode: Mode) -> None:
        self.tables = Tables(spark, state.as_uri())
        self.config = config
        self._stop = threading.Event()
        self._error: BaseException | None = None
        self.context = flow_context(spark, self.tables, config)
        self._thread = threading.Thread(target=self._run, args=(mode,), name="flow", daemon=True)
        self._thread.start()

    def _run(self, mode: Mode) -> None:
        def admit(_plan: TopicPlan) -> Mode:
            return mode

        try:
            replicate(self.context, admit, self._stop)
        except BaseException as error:  # noqa: BLE001 - raised again in the test's thread
            self._error = error

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    def until(self, condition: Callable[[], object], timeout_seconds: float = 60) -> None:
        """Waits for *condition*; raises at once why the flow failed, if it does."""
        deadline = time.monotonic() + timeout_seconds
        while not condition():
            if not self.is_running:
                self.join()
                assert condition(), "the flow ended before"
                return
            assert time.monotonic() < deadline, f"not so after {timeout_seconds} s"
            time.sleep(0.1)  # between two questions

    def join(self) -> None:
        """Waits for the flow's own end, and raises why it failed."""
        self._thread.join(TIMEOUT_SECONDS)
        assert not self._thread.is_alive(), "the flow did not end"
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        """Asks for the end and waits for it."""
        self._stop.set()
        self.join()
