"""What a start of a flow would do: topics to create, positions to resume at, internal topics.

Only reads: the same rules decide here and when the flow starts.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from operator import attrgetter
from typing import Annotated, Final, Literal

from replication.config.changes import NOTHING_PAUSED, Change, Paused
from replication.config.group_settings import HeartbeatsConfig
from replication.config.tree import FlowConfig
from replication.control.changed import changed
from replication.control.sample import FlowSample
from replication.control.starts import StoredMap, find_starts
from replication.errors import ReplicationError, SetupError
from replication.foreign_json import to_json, written
from replication.kafka.acls import NoAclsError, TopicAcls
from replication.kafka.api import join_names
from replication.kafka.cluster import Cluster, distinct_ids
from replication.kafka.consumer_groups import Groups
from replication.kafka.diagnosis import BAD_FACTOR
from replication.kafka.internal_topic import (
    COMPACTED,
    LETTER_SETTINGS,
    faults_of,
    letter_faults_of,
)
from replication.kafka.jvm import shared_jvm
from replication.model import NewTopic, TopicAcl, TopicPartition
from replication.offsets.guard import (
    CountAhead,
    Jump,
    MatchTail,
    Missing,
    Refusal,
    Resume,
    StartFresh,
)
from replication.offsets.moved import MovedPosition
from replication.positions.compare import Verdict
from replication.positions.find import find_by_spans
from replication.positions.flow_clients import IdleFlowClients, compared
from replication.positions.originals import transform_refusals
from replication.positions.place import Match
from replication.positions.survey import Counted, Realigned, Survey, move_all, rule_all
from replication.state.dead_letters import WaitingLetters
from replication.topics.acls import YOURS, AclHistory, AclPlan
from replication.topics.configs import SyncHistory
from replication.topics.selection import group_notes, names_groups, uncopied_reads, writers_of
from replication.topics.topic_plan import TopicPlan
from replication.upkeep.faults import REPLICATION_FACTOR, TopicCause, TopicFault, causes_of
from replication.upkeep.prepare import (
    MissingRight,
    look,
    missing_rights,
    together,
    topic_faults,
    topic_warnings,
    unwritable_topics,
    without_refused,
)
from replication.upkeep.settings import TopicChanges, plan_acl_sync, plan_config_sync


def refused_transforms(
    config: FlowConfig, plan: TopicPlan, clusters: tuple[Cluster, Cluster]
) -> list[str]:
    """Returns why a start of the flow would refuse its transforms; nothing without any.

    Raises:
        ClusterError: A cluster does not answer.
        SetupError: Spark does not start here.
    """
    if not config.transforms:
        return []
    with IdleFlowClients(config, clusters) as clients, compared(config.flow):
        return transform_refusals(clients, plan)


# Where each partition of a flow would resume, as a start would find it. Only reads.
#
# Most positions follow from offsets and ids. Where a target has records that the offset map does
# not know, as before a take-over, they are compared with the source by what a start asks as well.

StartOrigin = Literal[
    "offset map",
    "auto.offset.reset",
    "target",
    "taken over",
    "created again",
    "decision",
    "set aside",
    "problem",
]
LATER = "earliest: it is newer than the flow; latest is for what was there at its first start"


@dataclass(frozen=True, slots=True)
class PartitionStart:
    """Where one partition resumes on the source.

    Args:
        partition: Upstream.
        offset: The first offset to read; None where only the start itself can find it.
        origin: What decides it.
        reason: The same in words.
    """

    partition: Annotated[TopicPartition, written(attrgetter("partition"))]
    offset: int | None
    origin: StartOrigin
    reason: str


def find_resumes(
    config: FlowConfig,
    topics: TopicPlan,
    clusters: tuple[Cluster, Cluster],
    stored: StoredMap,
) -> tuple[tuple[PartitionStart, ...], tuple[str, ...]]:
    """Finds where the partitions resume, and why positions of MirrorMaker 2 cannot be used."""
    spans, starts = find_starts(config, topics, clusters, stored)
    verdicts: dict[TopicPartition, Verdict] = dict(
        rule_all(config, topics, starts.decisions, stored.accepted)
    )
    warnings: tuple[str, ...] = ()
    if in_doubt := _in_doubt(config, topics, starts):
        asked = topics.without(topics.topics.keys() - in_doubt)
        with IdleFlowClients(config, clusters) as clients, compared(config.flow):
            found = find_by_spans(clients, asked, stored, spans, stored.asked)
        verdicts |= found.verdicts
        verdicts |= found.refused
        warnings = found.warnings
    problems = {tp.topic for tp, at in verdicts.items() if isinstance(at, Refusal | Missing)}
    resuming = {tp: at for tp, at in verdicts.items() if tp.topic not in problems}
    verdicts |= move_all(topics, spans, resuming, stored.asked.moves)[0]
    resumes = {tp: _start(config, tp, at, starts) for tp, at in verdicts.items()}
    return tuple(_with_topics(resumes)), warnings


def _in_doubt(config: FlowConfig, topics: TopicPlan, starts: Survey) -> set[str]:
    """Returns the topics with records that neither the offset map nor an offset explains."""
    return {
        tp.topic
        for tp, decision in starts.decisions.items()
        if isinstance(decision, MatchTail)
        or (
            config.takeover_topic
            and isinstance(decision, StartFresh)
            and decision.position.downstream
            and topics.is_shared(tp)
        )
    }


def _start(
    config: FlowConfig, tp: TopicPartition, verdict: Verdict, starts: Survey
) -> PartitionStart:
    match verdict:
        case Refusal() | Missing():
            return PartitionStart(tp, None, "problem", verdict.text)
        case MatchTail():  # of a topic that is refused for another partition
            return PartitionStart(tp, None, "target", "by the records of the target")
        case CountAhead(anchor, records):
            plural = "s" * (records != 1)
            skips = f"then skips {records} record{plural} that the target already has"
            return PartitionStart(tp, anchor.upstream, "offset map", f"offset map; {skips}")
        case Counted(run):
            text = f"offset map, and {run.count} more records that the target already has"
            return PartitionStart(tp, run.end.upstream, "offset map", text)
        case Realigned(runs, event):
            return PartitionStart(tp, runs[-1].end.upstream, "target", event.text)
    offset = verdict.position.upstream
    match verdict:
        case Resume():
            return PartitionStart(tp, offset, "offset map", "offset map")
        case Match(_, reason):
            origin: StartOrigin = "taken over" if verdict.is_taken_over else "target"
            return PartitionStart(tp, offset, origin, reason)
        case Jump() | MovedPosition():
            return PartitionStart(tp, offset, "decision", verdict.text(tp))
        case StartFresh():
            if tp in starts.void:
                return PartitionStart(tp, offset, "created again", starts.void[tp])
            fresh = f"auto.offset.reset={config.auto_offset_reset}"
            reason = LATER if tp in starts.later else fresh
            return PartitionStart(tp, offset, "auto.offset.reset", reason)


def _with_topics(found: Mapping[TopicPartition, PartitionStart]) -> Iterator[PartitionStart]:
    """Yields *found*, where a topic that has a problem is set aside with all its partitions."""
    problems = {tp.topic: tp for tp, start in found.items() if start.origin == "problem"}
    for tp, start in found.items():
        if tp.topic not in problems or start.origin == "problem":
            yield start
            continue
        where = "" if start.offset is None else f"at offset {start.offset}, "
        other = problems[tp.topic].partition
        reason = f"set aside with partition {other}; else {where}{start.reason}"
        yield PartitionStart(tp, None, "set aside", reason)


NO_ACLS = AclPlan()
Purpose = Literal["heartbeats", "checkpoints", "offset syncs", "status", "dead letters"]


@dataclass(frozen=True, slots=True)
class PlannedTopic:
    """A topic that the mirror itself writes."""

    name: str
    cluster: str
    purpose: Purpose
    exists: bool


@dataclass(frozen=True, slots=True)
class Histories:
    """What the flow did on the target before."""

    configs: SyncHistory
    acls: AclHistory


@dataclass(frozen=True, slots=True)
class FlowPlan:
    """What a start of *config*'s flow would do.

    Args:
        config: The flow.
        topics: What it replicates, and what it creates first.
        starts: Where each partition resumes.
        internal_topics: The topics that the mirror itself writes.
        settings: What the first comparison of topic settings would change on the target.
        acls: What the first comparison of topic ACLs would change there.
        cluster_ids: The own ids of its two clusters, by alias.
        warnings: Which remote topics would not keep what is copied to them, which internal topics
            are not as they must be, and a missing permission, one line each.
        unwritable: Why remote topics take no records now, by upstream names.
        lacking: What the user may not do with topics.
        sample: What its transforms make of some records, where that was asked for.
        paused: What operators let stand still.
        changes: What they have changed of the flow, as *config* has it already.
        letters: Records that could not be copied, and wait.
        causes: Why topics, internal ones included, would not be created or copied.
    """

    config: FlowConfig
    topics: TopicPlan
    starts: tuple[PartitionStart, ...]
    internal_topics: tuple[PlannedTopic, ...]
    settings: tuple[TopicChanges, ...] = ()
    acls: AclPlan = NO_ACLS
    cluster_ids: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    unwritable: Mapping[str, str] = field(default_factory=dict)
    lacking: tuple[MissingRight, ...] = ()
    sample: FlowSample | None = None
    paused: Paused = NOTHING_PAUSED
    changes: tuple[Change, ...] = ()
    letters: tuple[WaitingLetters, ...] = ()
    causes: tuple[TopicCause, ...] = ()

    @property
    def problems(self) -> tuple[str, ...]:
        """Why the flow would not start, or would leave something out, one line each."""
        own = (cause for cause in self.causes if not cause.is_internal)
        aside = (f"{cause.subject}: {cause.text}" for cause in own)
        unsafe: dict[str, list[PartitionStart]] = {}
        for start in self.starts:
            if start.origin == "problem":
                unsafe.setdefault(start.partition.topic, []).append(start)
        lines = (
            f"{some[0].partition if len(some) == 1 else f'{topic}: {len(some)} partitions'}: "
            f"{some[0].reason}"
            for topic, some in unsafe.items()
        )
        unled = join_names(list(map(str, self.topics.leaderless)))
        leaderless = [f"{unled}: no broker leads them on one side"] if unled else []
        topics = self.topics.rejected
        others = together(
            one for one in self.lacking if one.operation == "DESCRIBE" or one.topic not in topics
        )
        lacking = (f"{rights}; {rights.step(YOURS)}" for rights in others)
        failing = self.sample.problems if self.sample else ()
        return (*aside, *leaderless, *lacking, *self.unwritable.values(), *lines, *failing)

    def acl_changes(self) -> Iterator[tuple[str, TopicAcl]]:
        """Yields what is to be done, with each ACL; ``keep``: gone on the source, not removed."""
        yield from (("create", acl) for acl in self.acls.create)
        yield from (("remove", acl) for acl in self.acls.remove)
        yield from (("keep", acl) for acl in self.acls.keep)

    def document(self) -> dict[str, object]:
        """Returns what a command prints as JSON."""
        acls = ({"to_do": action, **asdict(acl)} for action, acl in self.acl_changes())
        return {
            "flow": str(self.config.flow),
            "topics": [self._topic(*names) for names in self.topics.topics.items()],
            "set_aside": dict(self.topics.rejected),
            "left_out": dict(self.topics.left_out),
            "internal_topics": [asdict(topic) for topic in self.internal_topics],
            "dead_letters": [asdict(waiting) for waiting in self.letters],
            "settings": [
                {
                    "remote_topic": topic.remote.name,
                    "key": change.key,
                    "previous": change.before,
                    "value": change.value,
                    "overwrites_a_change": change.is_conflict,
                }
                for topic in self.settings
                for change in topic.changes
            ],
            "acls": list(acls),
            "changes": [changed(change) for change in self.changes],
            "paused": [str(tp) for tp in self.paused.among(self.topics.partitions)],
            "warnings": self.warnings,
            "problems": self.problems,
            **({"sample": self.sample.document()} if self.sample else {}),
        }

    def _topic(self, topic: str, remote: str) -> dict[str, object]:
        starts = [start for start in self.starts if start.partition.topic == topic]
        return {
            "topic": topic,
            "remote_topic": remote,
            "create": remote in {created.name for created in self.topics.create},
            "grow_to": self.topics.grow.get(remote),
            "transforms": [one.name for one in self.topics.transforms.get(topic, ())],
            "partitions": list(map(to_json, starts)),
        }


def plan_flow(
    config: FlowConfig,
    heartbeats: HeartbeatsConfig | None,
    clusters: tuple[Cluster, Cluster],
    stored: StoredMap,
    histories: Histories,
    *,
    flows: Collection[FlowConfig] = (),
) -> FlowPlan:
    """Plans a start of the flow.

    Args:
        config: The flow.
        heartbeats: Of the flow's pair of clusters; None if they are disabled.
        clusters: Source and target.
        stored: Positions and topic ids of the offset map.
        histories: What was applied to the settings and ACLs of remote topics.
        flows: All flows of the file; some may write the same remote topics.

    Raises:
        GuardError: Source and target are one cluster.
        ClusterError: A cluster does not answer.
    """
    source, target = clusters
    topics = without_refused(look(config, source, target), target)
    shared = dict(_notes_of_shared(config, topics, flows))
    found, not_taken = find_resumes(config, topics, clusters, stored)
    starts = tuple(
        replace(start, reason=f"{start.reason}; {shared[remote]}") if remote in shared else start
        for start in found
        for remote in (topics.topics[start.partition.topic],)
    )
    internal, faults = find_internal_topics(config, heartbeats, clusters)
    brokers = {one.alias: len(one.brokers()) for one in clusters}
    lacking = missing_rights(config, topics, source, target)
    rejected = topic_faults(config, topics, lacking)
    causes = tuple(causes_of([*rejected, *faults], brokers))
    acls, notes = _acls(config, histories.acls)
    return FlowPlan(
        config,
        topics,
        starts,
        internal,
        tuple(_settings(config, clusters, histories.configs)),
        acls,
        distinct_ids(clusters),
        (
            *filter(None, [topics.shared_id]),
            *topics.warnings,
            *_idle_transforms(config, topics),
            *_group_notes(config),
            *map(str, topic_warnings(topics, source, target)),
            *(str(cause) for cause in causes if cause.is_internal),
            *notes,
            *not_taken,
        ),
        unwritable_topics(topics, target),
        lacking,
        causes=causes,
    )


def _idle_transforms(config: FlowConfig, topics: TopicPlan) -> Iterator[str]:
    """Yields a warning for each transform that changes no topic: a name may be misspelt."""
    used = {one for chain in topics.transforms.values() for one in chain}
    for one in config.transforms:
        if one not in used:
            named = ", ".join(one.topics)
            yield (
                f"replication.transforms.{one.name}.topics: {named} names no topic that "
                f"{config.flow} copies"
            )


def _notes_of_shared(
    config: FlowConfig, topics: TopicPlan, flows: Collection[FlowConfig]
) -> Iterator[tuple[str, str]]:
    """Yields each remote topic that others also write, and what follows."""
    others = [other for other in flows if other.flow != config.flow]
    for remote in sorted(topics.shared):
        writers = writers_of(remote, others, config.flow.target)
        names = f"flow {', '.join(map(str, writers))}" if writers else "other producers"
        yield remote, f"at least once: shared with {names}"


def _acls(config: FlowConfig, history: AclHistory) -> tuple[AclPlan, tuple[str, ...]]:
    """Returns what would change, and a warning if a missing permission or no Java hides that."""
    if not config.acls.sync_enabled:
        return NO_ACLS, ()
    try:
        with (
            TopicAcls(shared_jvm(), config.source.alias, config.source.admin) as source,
            TopicAcls(shared_jvm(), config.target.alias, config.target.admin) as target,
        ):
            return plan_acl_sync(config, source, target, history.created), ()
    except NoAclsError as error:
        return NO_ACLS, (str(error),) if error.has_authorizer else ()
    except SetupError as error:
        return NO_ACLS, (f"ACLs are not compared: {error}",)


def _group_notes(config: FlowConfig) -> tuple[str, ...]:
    """Returns which items of the lists of groups have no effect, and what groups read besides.

    Why, if that cannot be known.
    """
    groups, source = config.groups, config.source
    if not (groups.checkpoints_enabled or groups.sync_enabled):
        return ()
    try:
        with Groups(shared_jvm(), source.alias, source.admin) as found:
            names = found.states().keys()
            notes = group_notes(config, names) if names_groups(config) else ()
            committed, failures = found.readable(filter(groups.accepts, names))
            unread = [f"what group {name} reads is unknown: {failures[name]}" for name in failures]
            return (*notes, *uncopied_reads(config, committed), *unread)
    except ReplicationError as error:
        return (f"the lists of groups are not compared: {error}",)


def _settings(
    config: FlowConfig, clusters: tuple[Cluster, Cluster], history: SyncHistory
) -> Iterator[TopicChanges]:
    if config.topic_configs.sync_enabled:
        for planned in plan_config_sync(config, *clusters, history.applied):
            due = tuple(change for change in planned.changes if change.is_due)
            if due:
                yield replace(planned, changes=due)


FACTORS: Final[Mapping[Purpose, str]] = {
    "heartbeats": "heartbeats.topic.replication.factor",
    "checkpoints": "checkpoints.topic.replication.factor",
    "offset syncs": "offset-syncs.topic.replication.factor",
    "status": "status.storage.replication.factor",
    "dead letters": REPLICATION_FACTOR,
}
"""What a file calls the replication factor of an internal topic."""


def find_internal_topics(
    config: FlowConfig, heartbeats: HeartbeatsConfig | None, clusters: tuple[Cluster, Cluster]
) -> tuple[tuple[PlannedTopic, ...], tuple[TopicFault, ...]]:
    """Returns the topics that the mirror itself writes, and what is wrong with them.

    Of those that exist, and of those that their cluster would not create.
    """
    wanted = list(_internal_topics(config, heartbeats))
    own = {config.status.storage_topic}
    letters = {topic.name for topic, _, purpose in wanted if purpose == "dead letters"}
    exists, faults = set[tuple[str, str]](), list[TopicFault]()
    keys = {(alias, topic.name): FACTORS[purpose] for topic, alias, purpose in wanted}
    for cluster in clusters:
        topics = [topic for topic, alias, _ in wanted if alias == cluster.alias]
        existing = cluster.describe(topic.name for topic in topics)
        exists |= {(cluster.alias, name) for name in existing}
        texts = (
            *faults_of(cluster, existing.keys() - letters, own),
            *letter_faults_of(cluster, existing.keys() & letters),
        )
        faults += (TopicFault("", text, is_internal=True) for text in texts)
        missing = [topic for topic in topics if topic.name not in existing]
        for name, error in cluster.refusals(missing).items():
            is_short = error.code == BAD_FACTOR
            alias = cluster.alias if is_short else ""
            key = keys[cluster.alias, name] if is_short else ""
            faults.append(TopicFault(name, str(error), alias, key, is_internal=True))
    planned = tuple(
        PlannedTopic(topic.name, alias, purpose, exists=(alias, topic.name) in exists)
        for topic, alias, purpose in wanted
    )
    return planned, tuple(faults)


def _internal_topics(
    config: FlowConfig, heartbeats: HeartbeatsConfig | None
) -> Iterator[tuple[NewTopic, str, Purpose]]:
    """Yields each as it would be created, its cluster, and what it is for."""
    flow, policy, groups, status = config.flow, config.policy, config.groups, config.status
    if heartbeats is not None:
        topic = NewTopic(heartbeats.topic, 1, heartbeats.replication_factor, COMPACTED)
        yield topic, heartbeats.alias, "heartbeats"
    if groups.checkpoints_enabled:
        name = policy.checkpoints_topic(flow.source)
        yield NewTopic(name, 1, groups.replication_factor, COMPACTED), flow.target, "checkpoints"
    if config.offset_syncs.enabled:
        on_source = config.offset_syncs.location == "source"
        alias, other = (flow.source, flow.target) if on_source else (flow.target, flow.source)
        factor = config.offset_syncs.replication_factor
        topic = NewTopic(policy.offset_syncs_topic(other), 1, factor, COMPACTED)
        yield topic, alias, "offset syncs"
    if status.storage_topic:
        topic = NewTopic(
            status.storage_topic, status.partitions, status.replication_factor, COMPACTED
        )
        yield topic, flow.target, "status"
    if config.letters.kind == "topic":
        name = config.letters.letters_topic
        topic = NewTopic(name, 1, config.replication_factor, LETTER_SETTINGS)
        yield topic, flow.target, "dead letters"
