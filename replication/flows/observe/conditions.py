"""What an operator should know of a flow now, each with the next step. Pure."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from replication.errors import ReplicationError, first_line
from replication.figures.lag import Skew, duration_text, skew_text
from replication.figures.observation import (
    DOCTOR,
    SEVERITIES,
    Code,
    Condition,
    GroupFigures,
    TopicFigures,
)
from replication.flows.flow_metrics import Figures, Told, topic_of
from replication.kafka.api import join_names
from replication.mm2.filters import excluding
from replication.model import Flow
from replication.state.tables import EventCounts, WriteCounts
from replication.topics.configs import alter_line

OLD_MAP_SECONDS: Final = 600.0
OLD_POSITION_SECONDS: Final = 300.0
NEAR_RETENTION_SECONDS: Final = 3600.0
DAY_SECONDS: Final = 86_400.0
RECENT_SECONDS: Final = 900.0
"""Restarts and failed writes are of interest for that long."""

MANY_RESTARTS: Final = 3

MOST_OF_A_CODE: Final = 20
"""Topics that have a condition of their own; the others of its code are one together."""

LONGEST_TEXT: Final = 1000
SHOWN: Final = 10

Found = tuple[Code, str | None, str, str]
"""Code, topic, text in one sentence, and the command that mends it, or shows what will."""

_Key = tuple[Code, str | None, str]


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
        servers: The ``bootstrap.servers`` of the flow's clusters, by alias.
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
    keeps_less: Mapping[str, Told] = field(default_factory=dict)
    servers: Mapping[str, str] = field(default_factory=dict)
    throttles: Mapping[str, float] = field(default_factory=dict)


class Conditions:
    """The conditions of one flow, which begin at one look and end at another."""

    def __init__(self) -> None:
        self._since: dict[_Key, float] = {}

    def look(self, facts: FlowFacts) -> tuple[Condition, ...]:
        """Returns what holds now, the worst first, and what has held longest before the rest."""
        found: dict[_Key, Found] = {}
        for key, one in _keyed(facts):
            code, topic, *_ = one
            found[code, topic, key] = one
        now = facts.at + facts.jumped
        self._since = {key: self._since.get(key, now) for key in found}
        conditions = [
            Condition(code, SEVERITIES[code], self._since[key], _short(text), _short(step), topic)
            for key, (code, topic, text, step) in found.items()
        ]
        return tuple(_sorted(_folded(facts.flow, _sorted(conditions))))


def _keyed(facts: FlowFacts) -> Iterator[tuple[str, Found]]:
    """Yields what holds, with what tells it apart from others of its code and topic."""
    yield from (("", one) for one in find_conditions(facts))
    yield from _of_clusters(facts)


def _sorted(conditions: Iterable[Condition]) -> list[Condition]:
    order = {"bad": 0, "degraded": 1}
    return sorted(conditions, key=lambda one: (order[one.severity], one.since, one.code))


def _short(text: str) -> str:
    return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}.."


def _folded(flow: Flow, conditions: Iterable[Condition]) -> Iterator[Condition]:
    """Yields *conditions*; those of many topics together, from the `MOST_OF_A_CODE`-th on."""
    seen, more = Counter[Code](), defaultdict[Code, list[Condition]](list)
    for one in conditions:
        seen[one.code] += one.topic is not None
        if one.topic is not None and seen[one.code] > MOST_OF_A_CODE:
            more[one.code].append(one)
        else:
            yield one
    for code, rest in more.items():
        names = ", ".join(one.topic or "" for one in rest[:SHOWN])
        text = f"{len(rest)} more topics, such as {names}"
        step = f"python -m replication lag FILE --flow '{flow}' --top {seen[code]}"
        yield replace(rest[0], text=_short(text), next_step=step, topic=None)


def find_conditions(facts: FlowFacts) -> Iterator[Found]:
    """Yields what holds at one look, but of clusters."""
    yield from _of_topics(facts)
    yield from _of_times(facts)
    yield from _of_groups(facts)
    yield from _of_state(facts)


def command(facts: FlowFacts, name: str, options: str = "") -> str:
    """Returns a command about the flow."""
    return f"python -m replication {name} FILE --flow '{facts.flow}' {options}".rstrip()


def _of_topics(facts: FlowFacts) -> Iterator[Found]:
    yield from _set_aside(facts)
    gone = facts.metrics.gone
    for name in sorted(gone.keys() - {topic_of(part) for part in facts.metrics.aside}):
        yield "topic-gone", name, *gone[name]
    for topic in facts.topics:
        name = topic.topic
        if topic.state == "stalled":
            text = f"it does not move, although the source has records for it{_throttled(facts)}"
            step = command(facts, "lag", f"--topic {name} --partitions")
            yield "stalled", name, text, DOCTOR if facts.throttles else step
        headroom = topic.figures.get("retention_headroom_seconds")
        if headroom is not None and headroom < NEAR_RETENTION_SECONDS:
            source = facts.flow.source
            left = duration_text(headroom)
            text = f"{source} deletes records of it in {left} that are not copied yet"
            kept = 2000 * (headroom + topic.figures.get("lag_seconds", NEAR_RETENTION_SECONDS))
            longer = {"retention.ms": f"{kept:.0f}"}
            step = alter_line(facts.servers.get(source, source), name, longer)
            yield "retention-near", name, text, step
    for name, told in facts.keeps_less.items():
        yield "target-keeps-less", name, *told
    if facts.events.letters:
        text = f"{facts.events.letters} records could not be copied, and wait as letters"
        yield "dead-letters", None, text, command(facts, "dead-letters")
    lag = facts.figures.get("unpaused_lag_seconds", 0.0)  # a pause is no delay of the flow's
    if lag > facts.slo_lag_seconds:
        text = f"the oldest record that waits has waited for {duration_text(lag)}"
        step = DOCTOR if facts.throttles else command(facts, "lag")
        yield "lag-above-slo", None, text + _throttled(facts), step
    # what an operator has moved is what he wanted
    decided = {cause: at for cause, at in facts.events.given_up_at.items() if cause != "moved"}
    if decided and facts.at - max(decided.values()) < DAY_SECONDS:
        count = sum(facts.events.given_up[cause] for cause in decided)
        what = f"{count} source offsets" if count else "records that nobody can count"
        text = f"{what} were lost or repeated by decision in the last day"
        yield "offsets-given-up", None, text, command(facts, "events", "--kind jumped --since 1d")


def _set_aside(facts: FlowFacts) -> Iterator[Found]:
    """Yields the topics that are set aside; what repeats for each partition is said once."""
    topics = defaultdict[str, list[ReplicationError]](list)
    for part, error in facts.metrics.aside.items():
        topics[topic_of(part)].append(error)
    for name, errors in topics.items():
        count = sum(error.partitions or 1 for error in errors)
        some = f"{count} partitions: " if count > 1 else ""
        retry = command(facts, "retry", f"--topic {name}")
        yield "set-aside", name, f"{some}{first_line(errors[0])}", errors[0].command or retry


def _throttled(facts: FlowFacts) -> str:
    waits = (
        f"; a quota of {alias} makes each request wait for {seconds:.1f} s"
        for alias, seconds in facts.throttles.items()
    )
    return "".join(waits)


def _of_clusters(facts: FlowFacts) -> Iterator[tuple[str, Found]]:
    for alias, reason in facts.silent.items():
        text = f"cluster {alias} does not answer: {reason}"
        yield alias, ("cluster-unreachable", None, text, DOCTOR)
    for alias, skew in facts.skews.items():
        if skew.is_large:
            yield alias, ("clock-skew", None, skew_text(alias, skew), CLOCK)


def _of_times(facts: FlowFacts) -> Iterator[Found]:
    source = facts.flow.source
    if facts.heartbeat_age is not None:
        text = f"no heartbeat of {source} has arrived for {duration_text(facts.heartbeat_age)}"
        step = "./spark-submit.sh --config FILE --job heartbeats"
        yield "heartbeats-missing", None, text, step
    for topic, seconds in facts.ahead.items():
        text = (
            f"records of it have times that are {seconds:.1f} s ahead of this machine's clock: "
            f"compare those of its producers and of {source}"
        )
        yield "clock-skew", topic, text, CLOCK


CLOCK: Final = "chronyc tracking"


def _of_groups(facts: FlowFacts) -> Iterator[Found]:
    late = [
        group.group
        for group in facts.groups
        if group.figures.get("group_position_age_seconds", 0.0) > OLD_POSITION_SECONDS
    ]
    if late:
        text = f"groups without a position on the target: {join_names(late, SHOWN)}"
        yield "group-without-position", None, text, command(facts, "groups")
    blocked = [group.group for group in facts.groups if group.figures.get("group_blocked")]
    if blocked:
        text = f"groups whose offsets are not moved, for they are active on {facts.flow.target}"
        items = [excluding(group) for group in blocked[:SHOWN]]
        while len(items) > 1 and len(" ".join(items)) > LONGEST_TEXT // 2:  # half a command is none
            items.pop()
        step = command(facts, "group-lists", " ".join(items))
        yield "group-blocked", None, f"{text}: {join_names(blocked, SHOWN)}", step


def _of_state(facts: FlowFacts) -> Iterator[Found]:
    if not facts.is_reported:
        text = "executors do not report: positions move at the end of a batch, latency is unknown"
        step = (
            "spark-submit --jars replication.jar --conf spark.plugins=replication.Acknowledgements"
        )
        yield "records-not-reported", None, text, step
    age = facts.figures.get("map_age_seconds", 0.0)
    if age > OLD_MAP_SECONDS:
        waited = duration_text(age)
        text = f"the offset map was not written for {waited}, although records were copied"
        yield "map-old", None, text, DOCTOR
    failed = [
        table
        for table, counts in facts.writes.items()
        if counts.failed_at and facts.at - counts.failed_at < RECENT_SECONDS
    ]
    if failed:
        text = f"tables that could not be written lately: {', '.join(sorted(failed))}"
        yield "state-not-written", None, text, DOCTOR
    if facts.restarts > MANY_RESTARTS:
        text = f"{facts.restarts} restarts in the last 15 minutes"
        step = command(facts, "events", "--kind restarted --since 15m")
        yield "restarting", None, text, step
