"""Where the partitions of a flow would start: what ``plan`` shows and ``accept`` changes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter

from replication.config.state_access import StateAccess
from replication.config.transforms import stored_transforms
from replication.config.tree import FlowConfig
from replication.errors import NoAnswerError
from replication.kafka.cluster import Cluster
from replication.model import Chain, TopicPartition
from replication.offsets.guard import (
    Accepted,
    Decision,
    FirstStart,
    Jump,
    Missing,
    Refusal,
    StartOffset,
    rule,
)
from replication.offsets.map import TopicMap
from replication.offsets.runs import OffsetRun, Stamps
from replication.positions.expire import find_expired
from replication.positions.flow_clients import IdleFlowClients
from replication.positions.measure import with_cuts
from replication.positions.originals import as_written
from replication.positions.refine import find_cuts
from replication.positions.survey import (
    AskedPositions,
    LogSpans,
    Survey,
    in_doubt,
    rule_all,
    survey,
)
from replication.state.cluster_ids import StoredTopics, check_ids, check_topics, stored_ids
from replication.state.offset_table import FIRST_TOPICS, first_start_of
from replication.state.requests import (
    AcceptRequest,
    MoveRequest,
    open_channel,
    pending_acceptances,
    pending_moves,
)
from replication.state.schema_rows import read_schema_ids
from replication.state.table_reader import Anchor, StateReader
from replication.topics.topic_plan import TopicPlan
from replication.upkeep.prepare import look


def no_maps(_least: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, TopicMap]:
    """Returns no maps, for a flow that has no offset map."""
    return {}


@dataclass(frozen=True, slots=True)
class StoredMap:
    """What the state directory says of one flow.

    Args:
        anchors: The newest position of each partition.
        remote_ids: The ids of remote topics, without those whose last generation was that of an
            earlier version.
        runs: The map of a partition.
        first: What existed on the source when the flow first started; None if it has not yet.
        cluster_ids: Of the clusters that it is of, by alias.
        state_dir: The state directory.
        accepted: What operators have accepted, and no start has used yet.
        moves: What operators have moved, and no start has used yet.
        maps: The maps of some partitions, as far as they concern these offsets and later ones.
        transforms: What the newest copies of topics were transformed by.
        stamps: Under which leaders of both sides the partitions were copied, as far as is known.
    """

    anchors: Mapping[TopicPartition, Anchor]
    remote_ids: Mapping[str, str]
    runs: Callable[[TopicPartition], Sequence[OffsetRun]]
    first: FirstStart | None = None
    accepted: Mapping[TopicPartition, Accepted] = field(default_factory=dict)
    moves: Mapping[TopicPartition, MoveRequest] = field(default_factory=dict)
    cluster_ids: Mapping[str, str] = field(default_factory=dict)
    state_dir: str = ""
    maps: Callable[[Mapping[TopicPartition, int]], Mapping[TopicPartition, TopicMap]] = no_maps
    transforms: Mapping[str, Chain] = field(default_factory=dict)
    stamps: Mapping[TopicPartition, Stamps] = field(default_factory=dict)

    @property
    def asked(self) -> AskedPositions:
        """What operators ask of the next start."""
        return AskedPositions(self.accepted, {tp: each.moving for tp, each in self.moves.items()})


def stored_map(access: StateAccess, config: FlowConfig, state: StateReader) -> StoredMap:
    """Reads what *state* says of *config*'s flow, and what operators ask of its next start.

    Raises:
        StateError: The tables cannot be read.
        SetupError: Only Hadoop's client reaches the state directory, and Java does not start.
    """
    offsets = state.offsets(config.flow)
    rows = sorted(state.rows("topics", config.flow), key=itemgetter("at"))
    progress = offsets.progress()
    anchors = progress.anchors
    first = first_start_of(state.rows(FIRST_TOPICS, config.flow), has_started=bool(anchors))
    read_schema_ids(state, config.flow, config.schema_ids)  # records are compared by them
    with open_channel(access) as channel:
        accepted = pending_acceptances(channel, config.flow)
        moves = pending_moves(channel, config.flow)
    return StoredMap(
        anchors,
        {row["remote_topic"]: row["remote_id"] for row in rows if row.get("remote_id")},
        offsets.runs,
        first,
        accepted,
        moves,
        stored_ids(state, config),
        access.state_dir,
        offsets.maps,
        stored_transforms(rows),
        progress.stamps,
    )


def find_starts(
    config: FlowConfig,
    topics: TopicPlan,
    clusters: tuple[Cluster, Cluster],
    stored: StoredMap,
) -> tuple[LogSpans, Survey]:
    """Finds where the partitions of *topics* would start, as far as offsets and ids decide.

    No policy is applied to what is refused.
    """
    source, target = clusters
    found = {cluster.alias: cluster.cluster_id() for cluster in clusters}
    new = check_ids(config, stored.state_dir, stored.cluster_ids, found)
    unnamed = {alias: new[alias] for alias in new if alias not in stored.cluster_ids}
    of_map = {tp.topic: anchor.topic_id for tp, anchor in stored.anchors.items()}
    topics_of: StoredTopics = {"source": of_map, "target": stored.remote_ids}
    check_topics(config, stored.state_dir, unnamed, topics_of, clusters)
    remote = topics.copies
    found_ends = target.log_ends(remote.values())
    spans = LogSpans(
        source.earliest(topics.partitions),
        source.log_ends(topics.partitions, config.isolation),
        # a partition that the start creates is empty
        {tp: found_ends.get(remote[tp], 0) for tp in topics.partitions},
    )
    planned = with_created(topics)
    spans = with_cuts(config, clusters, planned, stored, spans)
    surveyed = survey(config, planned, stored, spans)
    expired = find_expired(config, planned, clusters, spans, surveyed.decisions)
    decisions = {**surveyed.decisions, **expired}
    if any(spans.unsure):
        with IdleFlowClients(config, clusters) as clients:
            written = as_written(clients, planned, stored)
            decisions |= find_cuts(written, planned, stored, spans, decisions)
    return spans, replace(surveyed, decisions=decisions)


def with_created(topics: TopicPlan) -> TopicPlan:
    """Returns the plan *topics* as if a start had created what it lacks on the target."""
    created = dict.fromkeys((topic.name for topic in topics.create), "to be created")
    return replace(topics, remote_ids={**topics.remote_ids, **created})


# What an operator accepts once: a topic that the guard refuses goes on at a given offset.


@dataclass(frozen=True, slots=True)
class Acceptance:
    """What would be accepted.

    Args:
        request: For the process that runs the flow.
        jumps: What becomes of each partition.
        left: Partitions of the topic that stay refused, so that the topic stays set aside.
    """

    request: AcceptRequest
    jumps: dict[TopicPartition, Jump]
    left: tuple[TopicPartition, ...]

    def document(self) -> dict[str, object]:
        """Returns what a command prints as JSON."""
        return {
            "topic": self.request.topic,
            "partitions": [
                {
                    "partition": tp.partition,
                    "cause": jump.refusal.cause,
                    "from": jump.position.upstream,
                    "target_offset": jump.position.downstream,
                    "lost": jump.lost,
                    "repeated": jump.repeated,
                    "unknown": jump.unknown,
                }
                for tp, jump in self.jumps.items()
            ],
            "still_refused": [tp.partition for tp in self.left],
        }


def plan_acceptance(
    config: FlowConfig,
    clusters: tuple[Cluster, Cluster],
    stored: StoredMap,
    where: tuple[str, int | None],
    start: StartOffset,
) -> Acceptance:
    """Returns what accepting *start* means for the partitions that the guard refuses.

    Args:
        config: The flow.
        clusters: Source and target.
        stored: What the state directory says.
        where: The upstream topic and a partition; None for all that are refused.
        start: Where they go on.

    Raises:
        NoAnswerError: The guard refuses none of them, or the source does not have *start*.
        GuardError: Source and target are one cluster.
        ClusterError: A cluster does not answer.
    """
    topic, number = where
    plan = look(config, *clusters)
    if topic not in plan.topics:
        why = plan.rejected.get(topic, "it is not one of the flow's topics: check the name")
        raise NoAnswerError(f"--topic {topic}: {why}")
    plan = plan.without(plan.topics.keys() - {topic})
    topic_id = plan.source_ids[topic]
    spans, starts = find_starts(config, plan, clusters, stored)
    refusals = {tp: at for tp, at in starts.decisions.items() if isinstance(at, Refusal)}
    doubts = in_doubt(spans, starts.decisions, {})
    for tp, at in rule_all(config, plan, doubts).items():
        # what the flow decides alone after each crash needs nobody
        if isinstance(at, Refusal) or doubts[tp].cause != "foreign-records":
            refusals[tp] = doubts[tp]
    chosen = [tp for tp in refusals if number in {None, tp.partition}]
    if not chosen:
        raise NoAnswerError(_why_nothing(topic, number, plan, starts.decisions))
    ruled = {tp: rule(refusals[tp], "fail", Accepted(start, topic_id), topic_id) for tp in chosen}
    if wrong := [f"\n  - {tp}: {at.text}" for tp, at in ruled.items() if isinstance(at, Refusal)]:
        raise NoAnswerError("".join([f"--from {start} is impossible:", *wrong]))
    return Acceptance(
        AcceptRequest(topic, topic_id, tuple(tp.partition for tp in chosen), start),
        {tp: at for tp, at in ruled.items() if isinstance(at, Jump)},
        tuple(
            tp
            for tp, at in rule_all(config, plan, starts.decisions).items()
            if tp not in chosen and isinstance(at, Refusal | Missing)
        ),
    )


def _why_nothing(
    topic: str,
    number: int | None,
    plan: TopicPlan,
    decisions: Mapping[TopicPartition, Decision],
) -> str:
    what = topic if number is None else f"{topic}-{number}"
    wanted = [tp for tp in (*decisions, *plan.leaderless) if number in {None, tp.partition}]
    if not wanted:
        return f"{what}: there is no such partition"
    missing = [at.text for tp in wanted if isinstance(at := decisions.get(tp), Missing)]
    leaderless = [f"no broker leads {tp} on one side" for tp in wanted if tp in plan.leaderless]
    if causes := [*missing, *leaderless]:
        return f"{what}: there is nothing to accept: {'; '.join(causes)}"
    return (
        f"{what}: there is nothing to accept, the flow goes on by itself as python -m replication "
        "plan shows"
    )
