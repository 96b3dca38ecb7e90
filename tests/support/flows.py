"""Flows that run in the process of the test, and their configurations."""

import threading
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import ClassVar
from weakref import WeakSet

from pyspark.sql import SparkSession

from replication.app.admission import Admission
from replication.config.keys import REPLICATION_FACTORS
from replication.config.parse import parse
from replication.config.tree import FlowConfig, MirrorConfig
from replication.flows.context import FlowContext
from replication.flows.outages import Outages
from replication.flows.replicate.generations import alone
from replication.flows.replicate.loop import replicate
from replication.flows.supervised import HeadStart
from replication.kafka.cluster import Cluster
from replication.kafka.watch import Watches
from replication.model import Flow, Mode
from replication.spark.session import LateSession
from replication.state.requests import RequestChannel
from replication.state.tables import Tables
from tests.support.gate.clock import Limit
from tests.support.local import Addressed
from tests.support.mirror_files import FLOW
from tests.support.rotation import source_of_this_test
from tests.support.waiting import Late

END_SECONDS = 60.0  # of a flow that is stopped
LISTEN_SECONDS = 0.2  # between two looks at what operators ask for


def unique_flow() -> Flow:
    """A flow between aliases, and so with internal topics, that no other test has."""
    return Flow(f"s{uuid.uuid4().hex[:6]}", f"t{uuid.uuid4().hex[:6]}")


def flow_config(
    source: Addressed,
    target: Addressed,
    topics: str,
    settings: Mapping[str, str] | None = None,
    flow: Flow = FLOW,
) -> FlowConfig:
    """The configuration of a flow between two brokers, as a user's file gives it."""
    return mirror_config(source, target, topics, settings, flow).flows[0]


def mirror_config(
    source: Addressed,
    target: Addressed,
    topics: str,
    settings: Mapping[str, str] | None = None,
    flow: Flow = FLOW,
) -> MirrorConfig:
    """The whole configuration whose only flow is the one of `flow_config`."""
    return parse(
        "test.yaml",
        {
            "clusters": f"{flow.source}, {flow.target}",
            f"{flow.source}.bootstrap.servers": source.bootstrap,
            f"{flow.target}.bootstrap.servers": target.bootstrap,
            f"{flow}.enabled": "true",
            f"{flow}.topics": topics,
            **dict.fromkeys(REPLICATION_FACTORS, "1"),
            "heartbeats.replication.enabled": "false",  # other tests emit heartbeats
            "refresh.topics.interval.seconds": "1",
            "replication.source": source_of_this_test(),
            "replication.realtime.batch.seconds": "5",
            f"{flow.source}.consumer.isolation.level": "read_committed",
            **(settings or {}),
        },
        default_state_dir="file:///unused",
    )


def flow_context(spark: SparkSession, tables: Tables, config: FlowConfig) -> FlowContext:
    """The open connections of a flow."""
    return FlowContext(
        config,
        LateSession.of(spark),
        tables,
        Cluster(config.source.alias, config.source.admin, prefers_java=True),
        Cluster(config.target.alias, config.target.admin, prefers_java=True),
        RequestChannel(tables.files(), tables.root),
        Outages(
            tables,
            config.flow,
            (config.source, config.target),
            Watches(),
            is_drain=config.mode == "drain",
        ),
    )


class RunningFlow:
    """The replication loop in a thread. `stop` and `join` raise the flow's error."""

    started: ClassVar["WeakSet[RunningFlow]"] = WeakSet()

    def __init__(
        self,
        spark: SparkSession,
        state: Path,
        config: FlowConfig,
        mode: Mode,
        source: Cluster | None = None,
        admission: Admission | None = None,
        head_start: HeadStart | None = None,
    ) -> None:
        self.tables = Tables(spark, state.as_uri())
        self.config = replace(config, mode=mode)
        self._stop, self._has_ended = threading.Event(), threading.Event()
        self._error: BaseException | None = None
        self.context = flow_context(spark, self.tables, self.config)
        if source is not None:
            self.context = replace(self.context, source=source)
        if head_start is not None:
            self.context = replace(self.context, head_start=head_start)
        self._admitted = admission.of(self.context, self._stop) if admission else alone(mode)
        self._thread = threading.Thread(target=self._run, name="flow", daemon=True)
        self._thread.start()
        self.started.add(self)

    def _listen(self) -> None:
        """Lists what operators ask for, as a process does in its main thread."""
        while not self._has_ended.wait(LISTEN_SECONDS):
            with suppress(OSError):
                self.context.requests.paths("stop")

    def _run(self) -> None:
        threading.Thread(target=self._listen, name="requests", daemon=True).start()
        try:
            self.context.outages.begin()
            with self.context.outages:
                self._error = replicate(self.context, self._admitted, self._stop)
        except BaseException as error:  # noqa: BLE001 - raised again in the test's thread
            self._error = error
        finally:
            self._has_ended.set()

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    def until(self, condition: Callable[[], object], timeout_seconds: float = 60) -> None:
        """Waits for *condition*; raises the flow's error as soon as the flow fails."""
        limit = Limit(timeout_seconds)
        while not condition():
            if not self.is_running:
                self.join()
                assert condition(), "the flow ended too early"
                return
            if limit.is_over:
                raise Late("no success", limit)
            time.sleep(0.1)  # between two checks

    def join(self) -> None:
        """Waits until the flow ends by itself; raises its error if it failed."""
        limit = Limit(END_SECONDS)
        while self.is_running:
            if limit.is_over:
                raise Late("the flow did not end", limit)
            self._thread.join(0.1)
        if self._error is not None:
            raise self._error

    def ask_to_stop(self) -> None:
        """Lets the flow stop as soon as it can."""
        self._stop.set()

    def stop(self) -> None:
        """Stops the flow and waits for its end."""
        self.ask_to_stop()
        self.join()

    @classmethod
    def stop_all(cls) -> None:
        """Stops what a failed test has left running, for the session and the cores are shared."""
        running = [flow for flow in cls.started if flow.is_running]
        for flow in running:
            flow.ask_to_stop()
        limit = Limit(END_SECONDS)
        while any(flow.is_running for flow in running) and not limit.is_over:
            time.sleep(0.1)  # between two looks
