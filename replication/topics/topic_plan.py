"""What a flow replicates, and which topics the target lacks for it. Pure.

Lists of topics come in as values, and decisions come out.
"""

from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from types import MappingProxyType
from typing import Final, Generic, TypeVar

from replication.backoff import Backoff
from replication.config.changes import Paused
from replication.config.checks import END_LOOPS, endless_loops
from replication.config.tree import FlowConfig
from replication.mm2.filters import NameFilter
from replication.model import Chain, Flow, NewTopic, Topic, TopicPartition, TopicSetting
from replication.offsets.copy_rule import CopyRule
from replication.topics.selection import remote_topics


def copy_rule(config: FlowConfig, topics: Iterable[str]) -> CopyRule:
    chains = {topic: chain for topic in set(topics) if (chain := chain_of(config, topic))}
    rule = CopyRule(config.record_timestamps, chains=chains, schemas=config.schema_ids)
    if not config.has_provenance:
        return rule
    return replace(rule, mark=config.source.alias, not_to=config.target.alias)


def chain_of(config: FlowConfig, topic: str) -> Chain:
    """Returns the transforms of *topic*: none of heartbeats, which the mirror itself reads.

    What an earlier process wrote is compared by what wrote it.
    """
    if topic in config.written_by:
        return config.written_by[topic]
    if not config.transforms or config.policy.is_heartbeats_topic(topic):
        return ()
    return tuple(one for one in config.transforms if NameFilter(one.topics).accepts(topic))


KEY: Final = "min.insync.replicas"


def too_few_in_sync(
    topic: Topic, settings: Mapping[str, TopicSetting], alias: str, servers: str
) -> str:
    """Returns why *topic* takes no records that all replicas in sync must have; "" if it does.

    A topic with fewer replicas than that is not named: its brokers count all of them as enough.

    Args:
        topic: As its cluster describes it.
        settings: Its settings in effect.
        alias: Its cluster.
        servers: The ``bootstrap.servers`` of that cluster.
    """
    needed = int(settings[KEY].value or 1) if KEY in settings else 1
    short = {
        partition: count
        for partition, (count, replicas) in enumerate(topic.in_sync)
        if 0 < count < min(needed, replicas)  # without any it has no leader, as is said elsewhere
    }
    if not short:
        return ""
    first = next(iter(short))
    return (
        f"topic {topic.name} on {alias} takes no records: {KEY}={needed}, and {len(short)} of its "
        f"{topic.partitions} partitions have fewer replicas in sync (partition {first} has "
        f"{short[first]}); start the brokers that hold the others, or lower it with: kafka-configs "
        f"--bootstrap-server {servers} --alter --entity-type topics --entity-name {topic.name} "
        f"--add-config {KEY}={min(short.values())}"
    )


def codecs_of_copies(
    topics: Collection[str],
    newest: Mapping[str, Sequence[str]],
    known: Mapping[str, str],
    otherwise: str,
) -> dict[str, str]:
    """Returns a codec for each of *topics*.

    A topic with several producers may have batches of several codecs. Its copies keep the codec
    that they have while one of the newest batches has it, for a change costs a generation.

    Args:
        topics: Upstream names.
        newest: The codecs of a topic's newest batches, newest first; none for a topic without one.
        known: The codecs so far.
        otherwise: That of a topic of which nothing is known.
    """
    return {
        topic: _codec(newest.get(topic, ()), known.get(topic, otherwise))
        for topic in sorted(topics)
    }


def _codec(newest: Sequence[str], known: str) -> str:
    return known if known in newest or not newest else newest[0]


KeyT = TypeVar("KeyT", bound=Hashable)


@dataclass(frozen=True, slots=True)
class _Retry:
    failures: int
    at: float


class RetryTimes(Generic[KeyT]):
    """The keys that failed, and the time of the next attempt of each, by the caller's clock.

    Args:
        backoff: The pauses.
    """

    def __init__(self, backoff: Backoff) -> None:
        self._backoff = backoff
        self._retries: dict[KeyT, _Retry] = {}

    def failed(self, key: KeyT, now: float) -> float:
        """Says that an attempt failed, and returns the seconds until the next one."""
        failures = self._retries[key].failures + 1 if key in self._retries else 1
        pause = self._backoff.after(failures)
        self._retries[key] = _Retry(failures, now + pause)
        return pause

    def retry_now(self, key: KeyT, now: float) -> None:
        """Makes the next attempt due; its failure counts as a first one."""
        self._retries[key] = _Retry(0, now)

    def succeeded(self, key: KeyT) -> None:
        """Says that there is nothing left to try; the next failure is a first one."""
        self._retries.pop(key, None)

    def waiting(self, now: float) -> frozenset[KeyT]:
        """Returns the keys whose next attempt is not due yet."""
        return frozenset(key for key, retry in self._retries.items() if retry.at > now)

    def is_due(self, now: float) -> bool:
        return any(retry.at <= now for retry in self._retries.values())


NO_CONFIGS: Mapping[str, Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """What a flow replicates, and what must first be changed on the target.

    Args:
        topics: Upstream name -> remote name.
        create: Remote topics that do not exist.
        grow: Remote topic with fewer partitions than its upstream topic -> the partitions needed.
        partitions: Every partition to replicate, by its upstream name, sorted.
        source_ids: Upstream name -> topic id on the source.
        remote_ids: Remote name -> topic id on the target, for the topics that exist.
        leaderless: Upstream partitions that no broker leads on one of the clusters; they are not in
            ``partitions``.
        rejected: Why other topics of the flow are not replicated, by their upstream names: a
            cluster rejects them, or two of them have one remote name.
        left_to_others: Why further topics are left to other flows, by their upstream names.
        paused: Upstream partitions that operators have paused; they are not in ``partitions``.
        shared: Those of the remote names that others write as well, as the flow declares; there is
            no counting of their records, so they are copied at least once.
        has_provenance: Whether the flow marks its records, and copies none back to where it was.
        left_out: Why topics are not copied that look like copies, by their names.
        warnings: Warnings about the topic lists, one line each: an item without effect.
        shared_id: A warning if both clusters have one id, although they differ; "" if not.
        is_empty: Whether the lists name topics and select none, except heartbeats.
        codecs: Upstream name -> the codec of its copies; empty where the producer's setting is that
            of all.
        transforms: What changes the records of topics, by upstream names, where anything does.
        made: The remote topics that were created for this plan just now, by nobody else.
        short_of_brokers: Those of the rejected topics for whose replication factor the target has
            too few brokers.
        gone: Those of the topics that were known before that the source says it does not have.
    """

    topics: Mapping[str, str]
    create: tuple[NewTopic, ...]
    grow: Mapping[str, int]
    partitions: tuple[TopicPartition, ...]
    source_ids: Mapping[str, str]
    remote_ids: Mapping[str, str] = field(default_factory=dict)
    leaderless: tuple[TopicPartition, ...] = ()
    rejected: Mapping[str, str] = field(default_factory=dict)
    left_to_others: Mapping[str, str] = field(default_factory=dict)
    paused: tuple[TopicPartition, ...] = ()
    shared: frozenset[str] = frozenset()
    has_provenance: bool = False
    left_out: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    shared_id: str = ""
    is_empty: bool = False
    codecs: Mapping[str, str] = field(default_factory=dict)
    transforms: Mapping[str, Chain] = field(default_factory=dict)
    made: frozenset[str] = frozenset()
    short_of_brokers: frozenset[str] = frozenset()
    gone: frozenset[str] = frozenset()

    def copy_of(self, tp: TopicPartition) -> TopicPartition:
        """Returns the remote partition of the upstream partition *tp*."""
        return TopicPartition(self.topics[tp.topic], tp.partition)

    @property
    def copies(self) -> dict[TopicPartition, TopicPartition]:
        """The remote partitions, by upstream partition."""
        return {tp: self.copy_of(tp) for tp in self.partitions}

    def is_shared(self, tp: TopicPartition) -> bool:
        """Returns whether others also write the remote topic of the upstream partition *tp*."""
        return self.topics[tp.topic] in self.shared

    def ends_loop(self, remote: str) -> bool:
        """Returns whether *remote* may be in a loop, as no record is copied round it."""
        return self.has_provenance and remote in self.shared

    @property
    def fingerprint(self) -> tuple[object, ...]:
        """Equal for two plans that replicate the same partitions of the same topics.

        Topics to create and to grow do not count: a refresh that differs from the running plan
        only in these needs no new generation.
        """
        return (
            tuple(sorted(self.topics.items())),
            self.partitions,
            tuple(sorted(self.source_ids.items())),
            tuple(sorted(self.remote_ids.items())),
            tuple(sorted(self.codecs.items())),
            tuple(sorted((name, repr(chain)) for name, chain in self.transforms.items())),
        )

    def beyond(self, running: "TopicPlan") -> "TopicPlan | None":
        """Returns what this has more than *running*; None if it lacks any, or differs."""
        if not (
            running.topics.items() <= self.topics.items()
            and running.source_ids.items() <= self.source_ids.items()
            and running.remote_ids.items() <= self.remote_ids.items()
            and running.codecs.items() <= self.codecs.items()
            and set(running.partitions) <= set(self.partitions)
            and running.transforms.items() <= self.transforms.items()
        ):
            return None
        known = set(running.partitions)
        added = tuple(tp for tp in self.partitions if tp not in known)
        names = {tp.topic for tp in added}
        return replace(self.without(self.topics.keys() - names), partitions=added)

    def only(self, partitions: Collection[TopicPartition]) -> "TopicPlan":
        kept = tuple(tp for tp in self.partitions if tp in partitions)
        names = {tp.topic for tp in kept}
        return replace(self.without(self.topics.keys() - names), partitions=kept)

    def with_codecs(self, codecs: Mapping[str, str]) -> "TopicPlan":
        return replace(self, codecs=codecs)

    def by_codec(
        self, most: int | None = None, *, apart: Collection[str] = ()
    ) -> "list[TopicPlan]":
        """Returns the plan in parts, each with one codec of copies; that with most topics first.

        The topics *apart* are in parts of their own. Beyond *most* parts, topics join the first one
        and get its codec.
        """
        names = defaultdict(list)
        for topic in self.topics:
            names[self.codecs.get(topic, ""), topic in apart].append(topic)
        if len(names) <= 1:
            return [self]
        parts = sorted(names.items(), key=lambda item: (-len(item[1]), item[0]))
        joined = [topic for _, topics in parts[max(1, most or len(parts)) :] for topic in topics]
        (first, topics), *others = parts[: max(1, most or len(parts))]
        split = [(first, [*topics, *joined]), *others]
        return [
            self.without(self.topics.keys() - set(part)).with_codecs(
                dict.fromkeys(part, codec) if codec else {}
            )
            for (codec, _), part in split
        ]

    def and_more(self, other: "TopicPlan") -> "TopicPlan":
        """Returns the plan with those partitions of *other* that it lacks, and their topics."""
        more = other.only(set(other.partitions) - set(self.partitions))
        return replace(
            self,
            topics={**more.topics, **self.topics},
            partitions=tuple(sorted({*self.partitions, *more.partitions})),
            source_ids={**more.source_ids, **self.source_ids},
            remote_ids={**more.remote_ids, **self.remote_ids},
            shared=self.shared | more.shared,
            codecs={**more.codecs, **self.codecs},
        )

    def without_leaders(self, silent: Collection[TopicPartition]) -> "TopicPlan":
        """Returns the plan with those of its partitions as leaderless that are among *silent*."""
        led = tuple(tp for tp in self.partitions if tp not in silent)
        unled = tuple(tp for tp in self.partitions if tp in silent)
        return replace(self, partitions=led, leaderless=(*self.leaderless, *unled))

    def without_paused(self, paused: Paused) -> "TopicPlan":
        """Returns the plan without the partitions that are *paused*, and without their topics."""
        found = tuple(paused.among((*self.partitions, *self.leaderless)))
        left = set(self.partitions) | set(self.leaderless)
        left -= set(found)
        names = {tp.topic for tp in left}
        return replace(
            self.without(self.topics.keys() - names) if found else self,
            partitions=tuple(tp for tp in self.partitions if tp in left),
            leaderless=tuple(tp for tp in self.leaderless if tp in left),
            paused=found,
        )

    def replaces(self, remote_ids: Mapping[str, str]) -> frozenset[str]:
        """Returns those of the topics of *remote_ids* that were deleted, or are other ones now."""
        return frozenset(
            remote
            for remote in self.topics.values()
            if remote in remote_ids and self.remote_ids.get(remote) != remote_ids[remote]
        )

    def without(self, names: Collection[str]) -> "TopicPlan":
        """Returns the plan for the other topics than *names*, which are upstream ones."""
        topics = {name: remote for name, remote in self.topics.items() if name not in names}
        remotes = set(topics.values())
        return replace(
            self,
            topics=topics,
            create=tuple(topic for topic in self.create if topic.name in remotes),
            grow={remote: count for remote, count in self.grow.items() if remote in remotes},
            partitions=tuple(tp for tp in self.partitions if tp.topic in topics),
            leaderless=tuple(tp for tp in self.leaderless if tp.topic in topics),
            source_ids={name: self.source_ids[name] for name in topics},
            remote_ids={name: uid for name, uid in self.remote_ids.items() if name in remotes},
            codecs={name: codec for name, codec in self.codecs.items() if name in topics},
            transforms={name: at for name, at in self.transforms.items() if name in topics},
        )


def plan_topics(
    config: FlowConfig,
    source: Mapping[str, Topic],
    target: Mapping[str, Topic],
    configs: Mapping[str, Mapping[str, str]] = NO_CONFIGS,
) -> TopicPlan:
    """Plans which topics to replicate, and which to create or grow on the target.

    A remote topic with more partitions than its upstream topic is left unchanged.

    Args:
        config: The flow.
        source: The source's topics by name; those the flow does not select are ignored.
        target: The target's topics by name; at least the remote topics that exist.
        configs: Upstream name -> settings for the creation of its remote topic.
    """
    selected = remote_topics(config, source)
    ambiguous = _shared_remotes(selected)
    topics = {name: remote for name, remote in selected.items() if name not in ambiguous}
    missing = {name: remote for name, remote in topics.items() if remote not in target}
    existing = {name: remote for name, remote in topics.items() if remote in target}
    partitions = tuple(_partitions(source[name] for name in sorted(topics)))
    leaderless = tuple(
        tp
        for tp in partitions
        if tp.partition in source[tp.topic].leaderless
        or (tp.topic in existing and tp.partition in target[existing[tp.topic]].leaderless)
    )
    unusable = set(leaderless)
    return TopicPlan(
        topics=topics,
        create=tuple(
            NewTopic(remote, source[name].partitions, config.replication_factor, settings)
            for name, remote in missing.items()
            for settings in [tuple(sorted(configs.get(name, {}).items()))]
        ),
        grow={
            remote: source[name].partitions
            for name, remote in existing.items()
            if target[remote].partitions < source[name].partitions
        },
        partitions=tuple(tp for tp in partitions if tp not in unusable),
        source_ids={name: source[name].topic_id for name in topics},
        remote_ids={remote: target[remote].topic_id for remote in existing.values()},
        leaderless=leaderless,
        rejected=ambiguous,
        shared=frozenset(remote for remote in topics.values() if config.shares(remote)),
        has_provenance=config.has_provenance,
        transforms={name: chain for name in topics if (chain := chain_of(config, name))},
    )


def _partitions(topics: Iterable[Topic]) -> Iterator[TopicPartition]:
    for topic in topics:
        for partition in range(topic.partitions):
            yield TopicPartition(topic.name, partition)


def _shared_remotes(topics: Mapping[str, str]) -> dict[str, str]:
    """Returns why topics with another one's remote name are not replicated, by own name."""
    upstream = defaultdict(list)
    for name, remote in sorted(topics.items()):
        upstream[remote].append(name)
    return {
        name: f"topics {', '.join(names)} would all be written to {remote}; exclude all but one "
        "with topics.exclude, or choose another replication policy or separator"
        for remote, names in upstream.items()
        if len(names) > 1
        for name in names
    }


# Flows that must not run side by side: two writers of one topic, or a replication loop.

Edges = dict[tuple[str, str], bool]
"""From where to where topics are copied, such as A:t and B:t, as `endless_loops` takes them."""


def find_conflicts(
    flow: Flow, plans: Mapping[Flow, TopicPlan], cluster_ids: Mapping[str, str]
) -> dict[str, str]:
    """Finds why topics of *flow* must not be copied beside other flows, by their upstream names.

    A target topic with two writers is copied at least once, which all of its writers must declare.
    Flows that replicate a topic in a circle, such as two identity flows A->B and B->A, copy its
    records without end. The other flows' plans are without conflicts among each other.

    Args:
        flow: Whose topics are to be left out.
        plans: Each flow's plan.
        cluster_ids: Alias -> the cluster's own id, so that two aliases of one cluster count as one.
    """
    name_of = _names(cluster_ids)
    writers: dict[str, list[Flow]] = defaultdict(list)
    edges: Edges = {}
    for other, plan in sorted(plans.items(), key=lambda item: item[0]):
        if other != flow:
            for name, remote in plan.topics.items():
                start, end = f"{name_of[other.source]}:{name}", f"{name_of[other.target]}:{remote}"
                writers[end].append(other)
                edges[start, end] = plan.ends_loop(remote) and edges.get((start, end), True)
    found: dict[str, str] = {}
    own: dict[tuple[str, str], str] = {}
    source, target = name_of[flow.source], name_of[flow.target]
    for name, remote in plans[flow].topics.items():
        start, end = f"{source}:{name}", f"{target}:{remote}"
        others = writers.get(end, [])
        if all(remote in plans[writer].shared for writer in (flow, *others) if others):
            own[start, end] = name
        else:
            found[name] = (
                f"flow {', '.join(map(str, others))} writes topic {remote} on cluster "
                f"{flow.target}, to which {flow} would copy {name}; exclude it from all flows but "
                f"one with topics.exclude, or name {remote} in replication.aggregate.topics of "
                "each of them, which then copy it at least once"
            )
    plan = plans[flow]
    while own:
        own_edges = {
            edge: plan.ends_loop(plan.topics[name]) and edges.get(edge, True)
            for edge, name in own.items()
        }
        loops = endless_loops(edges | own_edges)
        closing = {edge: path for path in loops for edge in pairwise(path) if edge in own}
        if not closing:
            break
        found |= {own.pop(edge): _loop(path) for edge, path in closing.items()}
    return found


def find_all_conflicts(
    plans: Mapping[Flow, TopicPlan], cluster_ids: Mapping[str, str]
) -> tuple[str, ...]:
    """Returns what `find_conflicts` finds if the flows start in this order, one line each."""
    lines: list[str] = []
    admitted: dict[Flow, TopicPlan] = {}
    for flow, plan in plans.items():
        found = find_conflicts(flow, {**admitted, flow: plan}, cluster_ids)
        lines += (f"{flow}: {text}" for text in found.values())
        admitted[flow] = plan.without(found)
    return tuple(lines)


def find_topic_loops(
    flows: Collection[FlowConfig],
    names: Mapping[str, Collection[str]],
    cluster_ids: Mapping[str, str],
) -> tuple[str, ...]:
    """Returns the replication loop that *flows* would run into, as one line; none if there is none.

    Topics that a flow would create are followed through the other flows, so that a loop is found
    before the first record is copied.

    Args:
        flows: All flows that may run, in this process or in others.
        names: The topics that exist, by the alias of their cluster.
        cluster_ids: As in `find_conflicts`.
    """
    name_of = _names(cluster_ids)
    existing: dict[str, set[str]] = defaultdict(set)
    for alias, topics in names.items():
        existing[name_of[alias]].update(topics)
    edges: Edges = {}
    for _ in flows:  # a topic passes each flow once, unless there is a loop
        for flow in flows:
            source, target = name_of[flow.flow.source], name_of[flow.flow.target]
            remote = remote_topics(flow, existing[source])
            existing[target].update(remote.values())
            for name, copy in remote.items():
                edge = f"{source}:{name}", f"{target}:{copy}"
                is_ended = flow.has_provenance and flow.shares(copy)
                edges[edge] = is_ended and edges.get(edge, True)
    return tuple(_loop(path) for path in endless_loops(edges)[:1])


def _names(cluster_ids: Mapping[str, str]) -> dict[str, str]:
    """Returns the first alias of each alias's cluster: two may be of one cluster."""
    first = {uid: alias for alias, uid in sorted(cluster_ids.items(), reverse=True)}
    return {alias: first[uid] for alias, uid in cluster_ids.items()}


def _loop(path: Iterable[str]) -> str:
    return (
        f"replication loop: {' -> '.join(path)}; exclude the topic from one of these flows with "
        f"topics.exclude, use the default replication policy, or write for each of them {END_LOOPS}"
    )
