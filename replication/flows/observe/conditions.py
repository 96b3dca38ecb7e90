"""What an operator should know of a flow now, each with the next step. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from replication.figures.lag import Skew, skew_step, skew_text
from replication.figures.observation import SEVERITIES, Code, Condition, GroupFigures, TopicFigures
from replication.flows.flow_metrics import Figures
from replication.model import Flow
from replication.state.tables import EventCounts, WriteCounts

OLD_MAP_SECONDS: Final = 600.0
OLD_POSITION_SECONDS: Final = 300.0
NEAR_RETENTION_SECONDS: Final = 3600.0
DAY_SECONDS: Final = 86_400.0
RECENT_SECONDS: Final = 900.0
"""Restarts and failed writes are of interest for that long."""

MANY_RESTARTS: Final = 3

Found = tuple[Code, str | None, str, str]
"""Code, topic, text and next step."""

_Key = tuple[Code, str]
_OF_CLUSTERS: Final = frozenset[Code]({"cluster-unreachable", "clock-skew"})


@dataclass(frozen=True, slots=True)
class FlowFacts:
    """What one look at a flow has found, for `find_conditions`.

    Args:
        flow: Which.
        at: When.
        metrics: What the loop does.
        figures: Of the flow.
        topics: Their figures.
        groups: Their figures.
        silent: Why a cluster does not answer, by alias.
        events: What the flow has recorded.
        writes: The process's commits, by table.
        slo_lag_seconds: What the lag should stay below.
        is_reported: Whether executors report what they write.
        restarts: In the last 15 minutes.
        jumped: How far the machine's clock was set ahead since the process began.
        skews: How far the clock of a cluster is ahead, by alias, as far as it is known.
        ahead: How far times of the source's records are ahead of the machine's clock, by topic.
        heartbeat_age: How long no heartbeat of the source has arrived; None if none is late.
        keeps_less: Why the target does not keep what the source keeps, by topic.
        throttles: How long a quota makes a request of the flow wait, by alias, in seconds.
    """

    flow: Flow
    at: float
    metrics: Figures
    figures: Mapping[str, float]
    topics: tuple[TopicFigures, ...]
    groups: tuple[GroupFigures, ...]
    silent: Mapping[str, str]
    events: EventCounts
    writes: Mapping[str, WriteCounts]
    slo_lag_seconds: float
    is_reported: bool
    restarts: int
    jumped: float = 0.0
    skews: Mapping[str, Skew] = field(default_factory=dict)
    ahead: Mapping[str, float] = field(default_factory=dict)
    heartbeat_age: float | None = None
    keeps_less: Mapping[str, str] = field(default_factory=dict)
    throttles: Mapping[str, float] = field(default_factory=dict)


class Conditions:
    """The conditions of one flow, which begin at one look and end at another."""

    def __init__(self) -> None:
        self._since: dict[_Key, float] = {}

    def look(self, facts: FlowFacts) -> tuple[Condition, ...]:
        """Returns what holds now, the worst first, and what has held longest before the rest."""
        found: dict[_Key, Found] = {}
        for one in find_conditions(facts):
            code, topic, *_ = one
            found[code, topic or (one[3] if code in _OF_CLUSTERS else "")] = one
        now = facts.at + facts.jumped
        self._since = {key: self._since.get(key, now) for key in found}
        conditions = [
            Condition(code, SEVERITIES[code], self._since[key], text, step, topic)
            for key, (code, topic, text, step) in found.items()
        ]
        order = {"bad": 0, "degraded": 1}
        return tuple(sorted(conditions, key=lambda one: (order[one.severity], one.since, one.code)))


def find_conditions(facts: FlowFacts) -> Iterator[Found]:
    """Yields what holds at one look."""
    yield from _of_topics(facts)
    yield from _of_clusters(facts)
    yield from _of_clocks(facts)
    yield from _of_groups(facts)
    yield from _of_state(facts)


def _of_topics(facts: FlowFacts) -> Iterator[Found]:
    status = f"python -m replication status FILE --flow '{facts.flow}'"
    topics: set[str] = set()
    for part, error in facts.metrics.aside.items():
        name = part if isinstance(part, str) else part.topic
        if name in topics:
            continue
        topics.add(name)
        retry = f"python -m replication retry FILE --flow '{facts.flow}' --topic {name}"
        yield "set-aside", name, str(error), error.command or retry
    for topic in facts.topics:
        if topic.state == "stalled":
            text = f"{topic.topic} does not move, although the source has records for it"
            step = "see the log and the events `stalled` for the brokers that lead its partitions"
            yield "stalled", topic.topic, text + _throttled(facts), _quota_step(facts) or step
        headroom = topic.figures.get("retention_headroom_seconds")
        if headroom is not None and headroom < NEAR_RETENTION_SECONDS:
            text = (
                f"the source deletes records of {topic.topic} in {headroom:.0f} s that are not "
                "copied yet"
            )
            step = f"raise retention.ms of {topic.topic} on {facts.flow.source} until it is copied"
            yield "retention-near", topic.topic, text, step
    for name, text in facts.keeps_less.items():
        step = f"change these settings of its copy on {facts.flow.target}, or accept the loss"
        yield "target-keeps-less", name, text, step
    kept = facts.events.kinds["dead-letter"] - facts.events.kinds["dead-letter-copied"]
    if kept > 0:
        text = f"{kept} records could not be copied since the process began, and wait as letters"
        yield "dead-letters", None, text, "python -m replication dead-letters FILE"
    lag = facts.figures.get("unpaused_lag_seconds", 0.0)  # a pause is no delay of the flow's
    if lag > facts.slo_lag_seconds:
        text = f"the oldest record that waits has waited for {lag:.0f} s"
        step = _quota_step(facts) or f"{status}; conf/docs/troubleshooting.md"
        yield "lag-above-slo", None, text + _throttled(facts), step
    if facts.events.given_up_at and facts.at - facts.events.given_up_at < DAY_SECONDS:
        count = sum(facts.events.given_up.values())
        text = f"{count} source offsets were lost or repeated by decision in the last day"
        yield "offsets-given-up", None, text, "see the events `jumped` for topics and offsets"


def _throttled(facts: FlowFacts) -> str:
    waits = (
        f"; a quota of {alias} makes each request wait for {seconds:.1f} s"
        for alias, seconds in facts.throttles.items()
    )
    return "".join(waits)


def _quota_step(facts: FlowFacts) -> str:
    names = " and ".join(facts.throttles)
    if not names:
        return ""
    return f"raise the quotas of the flow's user on {names}: python -m replication doctor FILE"


def _of_clusters(facts: FlowFacts) -> Iterator[Found]:
    for alias, reason in facts.silent.items():
        step = f"start the brokers of {alias}, or correct {alias}.bootstrap.servers"
        yield "cluster-unreachable", None, f"cluster {alias} does not answer: {reason}", step
    if not facts.is_reported:
        text = "executors do not report: positions move at the end of a batch, latency is unknown"
        yield (
            "records-not-reported",
            None,
            text,
            "add replication.jar to spark.jars and spark.plugins",
        )
    if facts.heartbeat_age is not None:
        source = facts.flow.source
        text = f"no heartbeat of {source} has arrived for {facts.heartbeat_age:.0f} s"
        step = f"see whether a job emits heartbeats to {source}: emit.heartbeats.enabled"
        yield "heartbeats-missing", None, text, step


def _of_clocks(facts: FlowFacts) -> Iterator[Found]:
    for alias, skew in facts.skews.items():
        if skew.is_large:
            yield "clock-skew", None, skew_text(alias, skew), skew_step(alias)
    for topic, seconds in facts.ahead.items():
        text = (
            f"records of {topic} have times that are {seconds:.1f} s ahead of this machine's clock"
        )
        step = f"compare the clocks of {topic}'s producers, of {facts.flow.source} and of this host"
        yield "clock-skew", topic, text, step


def _of_groups(facts: FlowFacts) -> Iterator[Found]:
    late = [
        group.group
        for group in facts.groups
        if group.figures.get("group_position_age_seconds", 0.0) > OLD_POSITION_SECONDS
    ]
    if late:
        text = f"groups without a position on the target: {', '.join(late[:10])}"
        step = f"python -m replication groups FILE --flow '{facts.flow}'"
        yield "group-without-position", None, text, step
    blocked = [group.group for group in facts.groups if group.figures.get("group_blocked")]
    if blocked:
        target = facts.flow.target
        text = f"groups whose offsets are not moved, for they are active on {target}: "
        step = f"stop their members on {target}, or name them in groups.exclude"
        yield "group-blocked", None, text + ", ".join(blocked[:10]), step


def _of_state(facts: FlowFacts) -> Iterator[Found]:
    age = facts.figures.get("map_age_seconds", 0.0)
    if age > OLD_MAP_SECONDS:
        text = f"the offset map was not written for {age:.0f} s, although records were copied"
        yield "map-old", None, text, "see the log for map_write_failed"
    failed = [
        table
        for table, counts in facts.writes.items()
        if counts.failed_at and facts.at - counts.failed_at < RECENT_SECONDS
    ]
    if failed:
        text = f"tables that could not be written lately: {', '.join(sorted(failed))}"
        yield (
            "state-not-written",
            None,
            text,
            "check state.dir: free space, permissions, its server",
        )
    if facts.restarts > MANY_RESTARTS:
        text = f"{facts.restarts} restarts in the last 15 minutes"
        yield "restarting", None, text, "see the log for `restarting` and its cause"
