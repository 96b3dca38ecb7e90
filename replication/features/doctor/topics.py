"""What a start of a flow would meet on its clusters: topics, rights, sizes, internal topics."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from replication.config.group_settings import HeartbeatsConfig
from replication.config.tree import FlowConfig
from replication.control.partitions import PATIENCE_SECONDS
from replication.control.plan import PlannedTopic, find_internal_topics
from replication.errors import GuardError, ReplicationError
from replication.features.doctor.check_result import (
    CheckResult,
    Verdict,
    failed,
    told,
    unknown,
)
from replication.kafka.api import join_names
from replication.kafka.cluster import Cluster, Rejections, open_clusters
from replication.kafka.diagnosis import CallError
from replication.topics.acls import YOURS
from replication.topics.topic_plan import TopicPlan
from replication.upkeep.faults import TopicCause, causes_of
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

Principals = Mapping[str, str]
"""The user of a file on each cluster, by alias, where its login names one."""


@dataclass(frozen=True, slots=True)
class FlowLook:
    """What was seen of one flow.

    Args:
        findings: The rows.
        partitions: How many it would replicate; None if that is unknown.
        cluster_ids: Of its clusters, by alias, as far as they answer.
    """

    findings: tuple[CheckResult, ...]
    partitions: int | None = None
    cluster_ids: Mapping[str, str] = field(default_factory=dict)


def look_at_flow(
    config: FlowConfig, heartbeats: HeartbeatsConfig | None, principals: Principals
) -> FlowLook:
    """Looks at the clusters of one flow; changes nothing there."""
    what = f"topics of {config.flow}"
    found, ids = list[CheckResult](), dict[str, str]()
    count: int | None = None
    try:
        with open_clusters(config, PATIENCE_SECONDS) as (source, target):
            ids = {cluster.alias: cluster.cluster_id() for cluster in (source, target)}
            plan = look(config, source, target)
            count = len(plan.partitions)
            left = without_refused(plan, target)
            planned, faults = find_internal_topics(config, heartbeats, (source, target))
            brokers = {one.alias: len(one.brokers()) for one in (source, target)}
            lacking = missing_rights(config, plan, source, target)
            rejected = topic_faults(config, left, lacking)
            causes = tuple(causes_of([*rejected, *faults], brokers))
            found += judge_causes(str(config.flow), causes)
            found += judge_plan(what, plan, left)
            found += _rights((source, target), lacking, principals)
            found += _settings(config, plan, source, target)
            found += _internal(config, planned, is_well=not faults)
    except CallError as error:
        found.append(failed(what, error) if error.is_denied else unknown(what, str(error)))
    except ReplicationError as error:
        found.append(failed(what, error))
    return FlowLook(tuple(found), count, ids)


def judge_causes(flow: str, causes: Iterable[TopicCause]) -> Iterator[CheckResult]:
    """Yields a row for each of *causes*, with the commands of all its topics."""
    for cause in causes:
        kind = "internal topics" if cause.is_internal else "topics"
        subject = f": {cause.subject}" if cause.subject else ""
        verdict: Verdict = "warning" if cause.is_internal else "problem"
        code = 0 if cause.is_internal else GuardError.exit_code
        yield _row(f"{kind} of {flow}{subject}", cause.text, cause, verdict, code)


def _row(what: str, text: str, cause: TopicCause, verdict: Verdict, code: int = 0) -> CheckResult:
    """Returns the *text* of *cause* as a row, with the commands of all its topics."""
    each = (told(what, fault.text, verdict).commands for fault in cause.faults)
    commands = dict.fromkeys(command for some in each for command in some)
    return replace(told(what, text, verdict, code), commands=tuple(commands))


def judge_plan(what: str, plan: TopicPlan, left: TopicPlan) -> Iterator[CheckResult]:
    """Yields what follows from the *plan* of a flow and from what is *left* of it.

    *plan* has all topics that no cluster rejects, *left* those that the target would create.
    """
    if plan.leaderless:
        yield CheckResult(
            what=f"{what}: {join_names(list(map(str, plan.leaderless)))}",
            found="no broker leads them on one side, so they are not copied until one does",
            verdict="problem",
            next_step="start the brokers that lead them",
            exit_code=GuardError.exit_code,
        )
    for text in (*plan.warnings, *filter(None, [plan.shared_id])):
        yield told(what, text, "warning")
    total = len(plan.topics) + len(plan.rejected)
    if plan.is_empty:
        yield CheckResult(
            what=what,
            found="the lists of the flow select no topic",
            verdict="warning",
            next_step="correct topics and topics.exclude of the flow, or create the topics",
        )
    elif left.topics or not total:
        found = f"{len(left.topics)} of {total} would be replicated"
        yield CheckResult(what=what, found=found)
    else:
        yield CheckResult(
            what=what,
            found=f"none of {total} would be replicated: each is set aside",
            verdict="problem",
            next_step="do what the rows of the topics say",
            exit_code=GuardError.exit_code,
        )


def _rights(
    clusters: tuple[Cluster, Cluster], lacking: Collection[MissingRight], principals: Principals
) -> Iterator[CheckResult]:
    """Yields what the user may not do with the topics, as lines that allow it."""
    source, target = clusters
    yield from judge_rights(lacking, principals)
    if not lacking:
        names = f"{source.alias} and {target.alias}"
        found = "the user may read and write the topics that exist"
        yield CheckResult(what=f"permissions on {names}", found=found)


def judge_rights(rights: Iterable[MissingRight], principals: Principals) -> Iterator[CheckResult]:
    """Yields what follows from rights that are missing, with the lines that give them."""
    for some in together(rights):
        alias = some.rights[0].alias
        user = principals.get(alias, YOURS)
        yield CheckResult(
            what=f"permissions on {alias}",
            found=str(some),
            verdict="problem",
            next_step=some.step(user),
            commands=some.lines(user),
            exit_code=GuardError.exit_code,
        )


def _settings(
    config: FlowConfig, plan: TopicPlan, source: Cluster, target: Cluster
) -> Iterator[CheckResult]:
    """Yields which remote topics would keep less than their source topics, or take less."""
    what = f"sizes and retention of {config.flow}"
    hidden = [*_hidden(source, plan.topics), *_hidden(target, plan.topics.values())]
    for text in hidden:
        yield told(what, f"unknown: {text}", "unknown")
    losses, unwritable = topic_warnings(plan, source, target), unwritable_topics(plan, target)
    for cause in losses:
        yield _row(what, str(cause), cause, "warning")
    for text in unwritable.values():
        yield told(what, text, "problem", GuardError.exit_code)
    if not hidden and not losses and not unwritable:
        yield CheckResult(what=what, found="the target's topics keep and take what the source's do")


def _hidden(cluster: Cluster, topics: Collection[str]) -> list[str]:
    rejections = Rejections()
    rejections.call(cluster.topic_config, topics)
    return list(rejections.texts.values())


def _internal(
    config: FlowConfig, planned: Collection[PlannedTopic], *, is_well: bool
) -> Iterator[CheckResult]:
    what = f"internal topics of {config.flow}"
    if is_well:
        new = sum(not topic.exists for topic in planned)
        yield CheckResult(what=what, found=f"{len(planned)}; {new} of them are to be created")
