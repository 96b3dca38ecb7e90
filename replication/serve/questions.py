"""What `serve` asks clusters and tables itself, when somebody wants to know it now."""

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from replication.config.client_keys import MASK, is_secret
from replication.config.file import read_settings
from replication.config.keys import KEYS
from replication.config.tree import FlowConfig, MirrorConfig
from replication.config.values import text
from replication.control.changed import known_flow, steerings
from replication.control.groups import group_status, open_view, wanted_groups
from replication.control.positions import FlowPositions, flow_positions
from replication.control.starts import Acceptance, plan_acceptance, stored_map
from replication.control.stop import stop_flows
from replication.control.translate import Question, answer_question, log_start
from replication.control.written import open_written
from replication.errors import StateError
from replication.figures.minutes import CountedMinutes
from replication.figures.observation import EventRow
from replication.kafka.cluster import open_clusters
from replication.model import Flow, TopicPartition
from replication.offsets.guard import StartOffset
from replication.offsets.moved import Goal
from replication.serve.answers import FRESH_DAYS, event_answer, freshness_answer
from replication.serve.bounds import ProblemError
from replication.state.figures_table import count_minutes, stored_figures
from replication.state.folder import check_begun
from replication.state.readers import is_quick, open_reader
from replication.state.requests import RetryRequest, ask_owner
from replication.topics.topic_plan import TopicPlan

if TYPE_CHECKING:
    from replication.control.moves import MovePlan

_EVENT_COLUMNS: Final = ("group", "topic", "partition", "offset_from", "offset_until", "cluster")
_FRESH_SECONDS: Final = 2.0
_MINUTE_SECONDS: Final = 60.0
_MOST_KEPT: Final = 500
STOP_SECONDS: Final = 120.0

Figures = list[tuple[float, dict[str, float | None]]]
"""Figures by minute: when each began, and the figures by name."""


@dataclass(slots=True)
class Questions:
    """Asks about the flows of *config*; each answer is of now.

    All methods raise `ReplicationError` if a cluster or a table does not answer.
    """

    config: MirrorConfig
    _events: dict[Flow, tuple[float, list[dict[str, Any]]]] = field(default_factory=dict)
    _figures: dict[tuple[Flow, str | None], tuple[float, float, Figures]] = field(
        default_factory=dict
    )
    _late: dict[Flow, tuple[float, CountedMinutes | None]] = field(default_factory=dict)

    def flow(self, source: str, target: str) -> FlowConfig:
        """Returns a flow."""
        for flow in self.config.flows:
            if (flow.flow.source, flow.flow.target) == (source, target):
                return flow
        names = ", ".join(str(flow.flow) for flow in self.config.flows)
        raise ProblemError(
            404, "no-flow", f"no flow {source}->{target} is enabled; enabled: {names}"
        )

    def translate(self, flow: FlowConfig, question: Question) -> dict[str, Any]:
        """Translates an offset by the offset map, which whoever runs the flow writes first."""
        flow, unread = known_flow(self.config, flow)
        with open_written(self.config, flow) as (state, doubts):
            answer = answer_question(
                flow, state.offsets(flow.flow).runs, question, partial(log_start, flow)
            )
        return {**answer.document(), "problems": [*unread, *doubts]}

    def group(self, flow: FlowConfig, name: str) -> tuple[list[dict[str, object]], list[str]]:
        """Returns where a group is on both clusters, by partition, and what is in doubt."""
        flow, unread = known_flow(self.config, flow)
        with open_view(self.config, flow) as view:
            wanted = wanted_groups(flow, ())
            found = group_status(view, lambda group: group == name and wanted(group))
        return [status.document() for status in found.statuses], [*unread, *found.problems]

    def log_ends(
        self, flow: FlowConfig, topic: str, remote: str, numbers: Sequence[int]
    ) -> tuple[dict[int, int], dict[int, int]]:
        """Returns the ends of partitions on the source, by the isolation, and on the target."""
        with open_clusters(flow) as (source, target):
            own = [TopicPartition(topic, number) for number in numbers]
            copies = [TopicPartition(remote, number) for number in numbers]
            ends = source.log_ends(own, flow.isolation)
            found = target.log_ends(copies)
        return {tp.partition: at for tp, at in ends.items()}, {
            tp.partition: at for tp, at in found.items()
        }

    def events(self, flow: Flow) -> list[dict[str, Any]]:
        """Returns the rows of the table `events` of *flow*, the newest first."""
        at, rows = self._events.get(flow, (0.0, []))
        if time.monotonic() - at < _FRESH_SECONDS:
            return rows
        if not is_quick(self.config.access):
            raise StateError(
                f"the events of {self.config.state_dir} are out of reach without Spark; the last "
                "20 of each flow are shown, as its owner has published them"
            )
        with open_reader(self.config.access) as state:
            found = state.rows("events", flow)
        rows = [_event(flow, row) for row in sorted(found, key=lambda row: row["at"], reverse=True)]
        self._events[flow] = time.monotonic(), rows
        return rows

    def figures(self, flow: Flow, topic: str | None, since: float) -> Figures:
        """Returns the figures of a flow or topic by minute; none where Spark would be needed."""
        key = flow, topic
        at, begin, rows = self._figures.get(key, (0.0, since, []))
        if begin <= since and time.monotonic() - at < _MINUTE_SECONDS and at:
            return [row for row in rows if row[0] >= since]
        rows = []
        if is_quick(self.config.access):
            with open_reader(self.config.access) as state:
                rows = stored_figures(state, flow, topic, since)
        if len(self._figures) >= _MOST_KEPT:
            self._figures.clear()
        self._figures[key] = time.monotonic(), since, rows
        return rows

    def freshness(self, flow: FlowConfig) -> dict[str, Any]:
        """Returns in how many minutes of the last month *flow* lagged, and how many are allowed."""
        at, counted = self._late.get(flow.flow, (0.0, None))
        limit = flow.status.slo_lag_seconds
        if is_quick(self.config.access) and (not at or time.monotonic() - at >= _MINUTE_SECONDS):
            since = time.time() - FRESH_DAYS * 86_400
            with suppress(StateError), open_reader(self.config.access) as state:
                counted = count_minutes(state, flow.flow, since, limit)
            self._late[flow.flow] = time.monotonic(), counted
        return freshness_answer(flow.flow, limit, counted)

    def acceptance(
        self, flow: FlowConfig, what: tuple[str, int | None], start: StartOffset
    ) -> Acceptance:
        """Returns what it would mean that a topic goes on; nothing is changed."""
        flow = steerings(self.config.access, [flow.flow])[flow.flow].overlaid(flow)
        with (
            open_reader(self.config.access) as state,
            open_clusters(flow) as clusters,
        ):
            stored = stored_map(self.config.access, flow, state)
            return plan_acceptance(flow, clusters, stored, what, start)

    def accept(self, flow: FlowConfig, acceptance: Acceptance, reason: str) -> None:
        """Requests what `acceptance` has planned."""
        ask_owner(self.config.access, flow.flow, [acceptance.request], reason)

    def retry(self, flow: FlowConfig, topics: tuple[str, ...], reason: str) -> None:
        """Asks the process that runs *flow* to try again what is set aside."""
        ask_owner(self.config.access, flow.flow, [RetryRequest(topics)], reason)

    def positions(self, flow: FlowConfig, topics: Sequence[str]) -> FlowPositions:
        """Returns where partitions stand; whoever runs the flow writes its offset map first."""
        return flow_positions(self.config, flow, topics)

    def moves(
        self, flow: FlowConfig, topics: Sequence[str], partition: int | None, goal: Goal
    ) -> "MovePlan":
        """Returns what it would mean that partitions go on elsewhere; nothing is changed."""
        # Imported here because it imports Spark, which a server does not start
        from replication.control.moves import chosen_goals, planned_moves  # noqa: PLC0415

        def choose(plan: TopicPlan) -> dict[TopicPartition, Goal]:
            return chosen_goals(plan, topics, partition, goal)

        return planned_moves(self.config, flow, choose, may_start_spark=False)

    def move(self, flow: FlowConfig, planned: "MovePlan", reason: str) -> None:
        """Requests what `moves` has planned."""
        requests = (each.request for each in planned.moves)
        ask_owner(self.config.access, flow.flow, requests, reason)

    def stop(self, flow: FlowConfig, reason: str) -> None:
        """Asks the process that runs *flow* to stop, and waits until it has."""
        stop_flows(self.config, [flow.flow], "mirror", STOP_SECONDS, reason)

    def begun(self) -> None:
        """Checks that a job ever began with the state directory."""
        check_begun(self.config.state_dir)

    def settings(self) -> list[dict[str, str]]:
        """Returns the keys of the file as written, then all others with their defaults."""
        found = read_settings(self.config.file)
        written = [
            {
                "key": key,
                "value": MASK if is_secret(key) else text(raw),
                "origin": f"{self.config.file}:{found.lines.get(key, 0)}",
            }
            for key, raw in found.settings.items()
        ]
        defaults = [
            {"key": key.name, "value": key.default, "origin": "default"}
            for key in KEYS.values()
            if key.name not in found.settings and key.name != "clusters"
        ]
        return written + defaults


def _event(flow: Flow, row: dict[str, Any]) -> dict[str, Any]:
    at: datetime = row["at"]
    own = {name: row[name] for name in _EVENT_COLUMNS if row.get(name) is not None}
    seconds = at.replace(tzinfo=at.tzinfo or timezone.utc).timestamp()
    reaction: Any = row.get("reaction") or ""  # a later version may know others
    return event_answer(flow, EventRow(seconds, row["kind"], row["text"] or "", reaction, own))


def alias_of(config: MirrorConfig, alias: str) -> str | None:
    """Returns the broker addresses of a cluster; None if no flow that is enabled has it."""
    for flow in config.flows:
        for cluster in (flow.source, flow.target):
            if cluster.alias == alias:
                with suppress(KeyError):
                    return cluster.admin["bootstrap.servers"]
    return None
