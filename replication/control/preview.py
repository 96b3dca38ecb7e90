"""What a change of a flow would do, as the clusters are now.

Where a cluster does not answer, that is said, and the change can be made all the same: to pause a
flow while its source is down is a good idea.
"""

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Annotated, Final

from replication.config.changes import Change, Overrides, partition_of
from replication.config.limits import Limit
from replication.config.tree import FlowConfig, MirrorConfig
from replication.config.values import MissingValueError, closest
from replication.control.overrides import FlowOverrides
from replication.control.starts import stored_map
from replication.errors import ConfigError, NoAnswerError, ReplicationError
from replication.foreign_json import AS_TEXT, in_json
from replication.kafka.cluster import Cluster, distinct_ids, open_clusters
from replication.kafka.consumer_groups import Groups
from replication.kafka.jvm import shared_jvm
from replication.mm2.filters import PLAIN, NameFilter
from replication.model import TopicPartition
from replication.positions.expire import find_at_risk
from replication.state.readers import is_quick, open_reader
from replication.topics.selection import remote_topics, writers_of
from replication.topics.topic_plan import find_topic_loops

ANYWAY: Final = (
    "for a topic that is still to come, write --anyway, by REST anyway: true, on the page tick it"
)


@dataclass(frozen=True, slots=True)
class Effect:
    """What a change would do.

    Args:
        come: Upstream topics that would be copied, with their remote topics.
        go: Those that would not be copied any more.
        create: Remote topics that do not exist yet.
        pauses: Upstream partitions that would stand still.
        resumes: Those that would go on.
        groups_come: Groups that would be translated.
        groups_go: Those that would not be any more.
        warnings: Loops, second writers, retention, what has no effect or is not known; a line each.
    """

    come: Mapping[str, str] = field(default_factory=dict, metadata=in_json("topics_come"))
    go: Mapping[str, str] = field(default_factory=dict, metadata=in_json("topics_go"))
    create: tuple[str, ...] = field(default=(), metadata=in_json("remote_topics_to_create"))
    pauses: tuple[Annotated[TopicPartition, AS_TEXT], ...] = ()
    resumes: tuple[Annotated[TopicPartition, AS_TEXT], ...] = ()
    groups_come: tuple[str, ...] = ()
    groups_go: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def preview(
    mirror: MirrorConfig,
    steered: FlowOverrides,
    change: Change,
    *,
    may_start_spark: bool = True,
    anyway: bool = False,
) -> Effect:
    """Returns what *change* would do; what is not known is among its warnings.

    Args:
        mirror: The whole file, with the lists that are in force: other flows may write the same
            topics.
        steered: The flow as it is.
        change: The change.
        may_start_spark: Whether the offset map may be read where that needs Spark.
        anyway: Whether a pause or a limit may name a topic that the flow does not copy now.

    Raises:
        ConfigError: It pauses a partition that its topic does not have, or is for a topic that the
            flow does not copy.
    """
    after = steered.after(change)
    before, then = steered.config, after.overlaid(steered.configured)
    undone = after.in_force if change.what == "undo" else ()
    idle = [
        f"change {each.number}, {each.text}: the file says the same"
        for each in undone
        if each not in after.with_effect(steered.configured)
    ]
    effect = Effect(warnings=(*idle, *_still_paused(steered, after, change)))
    try:
        if (before.topics, before.topics_exclude) != (then.topics, then.topics_exclude):
            effect = _topics(mirror, (before, then), change, effect)
        if before.groups != then.groups:
            effect = _groups((before, then), change, effect)
        if after.paused != steered.steering.paused:
            known = mirror if may_start_spark or is_quick(mirror.access) else None
            effect = _pauses(known, (steered, after), effect)
        if items := _topics_of(change):
            with Cluster(then.source.alias, then.source.admin) as source:
                names = remote_topics(then, source.topic_names())
            idle = unmatched(items, names, "topic that the flow copies")
            plain = unmatched(filter(PLAIN.fullmatch, items), names, "topic that the flow copies")
            if plain and not anyway:
                raise ConfigError(change.what, [f"{text}; {ANYWAY}" for text in plain])
            effect = replace(effect, warnings=(*effect.warnings, *idle))
    except ReplicationError as error:
        if isinstance(error, ConfigError) and not isinstance(error, MissingValueError):
            raise
        text = f"what else this does is not known: {error}"
        effect = replace(effect, warnings=(*effect.warnings, text))
    return effect


def _topics_of(change: Change) -> list[str]:
    """Returns the names and regexes of topics that *change* pauses or limits from now on."""
    if change.what == "pause":
        return [item for item in change.items if partition_of(item) is None]
    is_new_limit = change.what == "limit" and not Limit.of_items(change.items).is_none
    return [change.scope] if is_new_limit and change.scope else []


def _still_paused(steered: FlowOverrides, after: Overrides, change: Change) -> tuple[str, ...]:
    """Returns what keeps the flow paused although *change* ends some of its pauses."""
    is_still = steered.steering.paused.flow and after.paused.flow
    if not is_still or change.what not in {"resume", "release", "undo"}:
        return ()
    if after.held:
        return (f"flow {steered.flow} {after.hold_text(steered.flow)}",)
    return ("the flow stays paused as a whole: resume it as well",)


def unmatched(items: Iterable[str], names: Collection[str], of: str) -> list[str]:
    """Returns which of *items* do nothing now, because none of *names* matches; a line each.

    That may be meant, of a topic that will come. It is also what a misspelled name looks like.
    """
    found = []
    for item in items:
        if not any(map(NameFilter((item,)).accepts, names)):
            near = closest(item, names)
            found.append(f"{item!r} is no {of} now{f'; did you mean {near!r}?' if near else ''}")
    return found


def _topics(
    mirror: MirrorConfig, configs: tuple[FlowConfig, FlowConfig], change: Change, effect: Effect
) -> Effect:
    before, then = configs
    with open_clusters(then) as clusters:
        source, target = clusters
        names, there = source.topic_names(), target.topic_names()
        old, new = remote_topics(before, names), remote_topics(then, names)
        come = {name: new[name] for name in sorted(new.keys() - old.keys())}
        others = [flow for flow in mirror.flows if flow.flow != then.flow]
        warnings = [
            f"{', '.join(map(str, writers))} writes {remote} on {then.flow.target} as well: only "
            "one of them may, or each must name it in replication.aggregate.topics"
            for remote in come.values()
            if (writers := writers_of(remote, others, then.flow.target)) and not then.shares(remote)
        ]
        warnings += _loops((*others, then), clusters, come)
        if change.what in {"topics.add", "topics.exclude"}:
            warnings += unmatched(change.items, names, f"topic of cluster {source.alias}")
    return replace(
        effect,
        come=come,
        go={name: old[name] for name in sorted(old.keys() - new.keys())},
        create=tuple(remote for remote in come.values() if remote not in there),
        warnings=(*effect.warnings, *warnings),
    )


def _loops(
    flows: Collection[FlowConfig], clusters: Collection[Cluster], come: Collection[str]
) -> tuple[str, ...]:
    if not come:
        return ()
    aliases = {cluster.alias for cluster in clusters}
    between = [flow for flow in flows if {flow.flow.source, flow.flow.target} <= aliases]
    names = {cluster.alias: cluster.topic_names() for cluster in clusters}
    return find_topic_loops(between, names, distinct_ids(tuple(clusters)))


def _groups(configs: tuple[FlowConfig, FlowConfig], change: Change, effect: Effect) -> Effect:
    source = configs[1].source
    with Groups(shared_jvm(), source.alias, source.admin) as groups:
        names = groups.states().keys()
    old, new = ({name for name in names if side.groups.accepts(name)} for side in configs)
    warnings = list(effect.warnings)
    if change.what in {"groups.add", "groups.exclude"}:
        warnings += unmatched(change.items, names, f"group of cluster {source.alias}")
    return replace(
        effect,
        groups_come=tuple(sorted(new - old)),
        groups_go=tuple(sorted(old - new)),
        warnings=tuple(warnings),
    )


def _pauses(
    mirror: MirrorConfig | None,
    configs: tuple[FlowOverrides, Overrides],
    effect: Effect,
) -> Effect:
    before, after = configs
    then = after.overlaid(before.configured)
    with open_clusters(then) as (source, _):
        topics = source.describe(remote_topics(then, source.topic_names()))
        partitions = [
            TopicPartition(topic.name, number)
            for topic in topics.values()
            for number in range(topic.partitions)
        ]
        _check_partitions(
            after, before.steering, {name: t.partitions for name, t in topics.items()}
        )
        old, new = (set(each.paused.among(partitions)) for each in (before.steering, after))
        warnings = _at_risk(mirror, then, source, new - old)
    return replace(
        effect,
        pauses=tuple(sorted(new - old)),
        resumes=tuple(sorted(old - new)),
        warnings=(*effect.warnings, *warnings),
    )


def _check_partitions(after: Overrides, before: Overrides, counts: Mapping[str, int]) -> None:
    new = sorted(after.paused.partitions - before.paused.partitions)
    problems = [
        f"{tp.topic} has {counts[tp.topic]} partitions, 0 to {counts[tp.topic] - 1}: there is no "
        f"partition {tp.partition}"
        if tp.topic in counts
        else f"{tp.topic} is no topic that this flow copies"
        for tp in new
        if tp.partition >= counts.get(tp.topic, 0)
    ]
    if problems:
        raise ConfigError("--partition", problems)


def _at_risk(
    mirror: MirrorConfig | None,
    config: FlowConfig,
    source: Cluster,
    paused: Collection[TopicPartition],
) -> list[str]:
    """Returns which of the partitions to be *paused* are near the source's retention already.

    Without a *mirror* whose state directory can be read, that is not known, and said.
    """
    if mirror is None:
        text = "what is near the source's retention is not known without Spark; the command says it"
        return [text] if paused else []
    with suppress(NoAnswerError), open_reader(mirror.access) as state:
        anchors = stored_map(mirror.access, config, state).anchors
        offsets = {tp: anchors[tp].position.upstream for tp in paused if tp in anchors}
        found = find_at_risk(source, offsets)
        return [f"{tp} is at risk: {text}" for tp, text in sorted(found.items())]
    return []
