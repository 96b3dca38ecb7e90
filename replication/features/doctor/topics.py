"""What a start of a flow would meet on its clusters: topics, rights, sizes, internal topics."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from replication.config.group_settings import HeartbeatsConfig
from replication.config.tree import FlowConfig
from replication.control.partitions import PATIENCE_SECONDS
from replication.control.plan import find_internal_topics
from replication.errors import GuardError, ReplicationError
from replication.features.doctor.check_result import CheckResult, failed, told, unknown
from replication.kafka.cluster import Cluster, Rejections, open_clusters
from replication.kafka.diagnosis import CallError
from replication.topics.acls import YOURS
from replication.topics.topic_plan import TopicPlan
from replication.upkeep.prepare import (
    MissingRight,
    look,
    missing_rights,
    topic_warnings,
    unwritable_topics,
    without_refused,
)

MOST_ROWS: Final = 20
"""Of single topics that would be set aside."""

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
            found += judge_plan(what, plan, without_refused(plan, target))
            found += _rights(config, plan, (source, target), principals)
            found += _settings(config, plan, source, target)
            found += _internal(config, heartbeats, (source, target))
    except CallError as error:
        found.append(failed(what, error) if error.is_denied else unknown(what, str(error)))
    except ReplicationError as error:
        found.append(failed(what, error))
    return FlowLook(tuple(found), count, ids)


def judge_plan(what: str, plan: TopicPlan, left: TopicPlan) -> Iterator[CheckResult]:
    """Yields what follows from the *plan* of a flow and from what is *left* of it.

    *plan* has all topics that no cluster rejects, *left* those that the target would create.
    """
    for topic, text in islice(left.rejected.items(), MOST_ROWS):
        yield told(f"{what}: {topic}", text, "problem", GuardError.exit_code)
    for tp in plan.leaderless:
        yield CheckResult(
            what=f"{what}: {tp}",
            found="no broker leads it on one side, so it is not copied until one does",
            verdict="problem",
            next_step="start the broker that leads it",
            exit_code=GuardError.exit_code,
        )
    for text in (*plan.warnings, *filter(None, [plan.shared_id])):
        yield told(what, text, "warning")
    total = len(plan.topics) + len(plan.rejected)
    if (more := len(left.rejected) - MOST_ROWS) > 0:
        yield CheckResult(
            what=what,
            found=f"{more} more would be set aside",
            verdict="problem",
            next_step="python -m replication plan lists all",
            exit_code=GuardError.exit_code,
        )
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
    config: FlowConfig,
    plan: TopicPlan,
    clusters: tuple[Cluster, Cluster],
    principals: Principals,
) -> Iterator[CheckResult]:
    """Yields what the user may not do with the topics, as lines that allow it."""
    source, target = clusters
    lacking = missing_rights(config, plan, source, target)
    for right in lacking:
        yield judge_right(right, principals)
    if not lacking:
        names = f"{source.alias} and {target.alias}"
        found = "the user may read and write the topics that exist"
        yield CheckResult(what=f"permissions on {names}", found=found)


def judge_right(right: MissingRight, principals: Principals) -> CheckResult:
    """Returns what follows from a right that is missing, with the line that gives it."""
    line = right.line(principals.get(right.alias, YOURS))
    return CheckResult(
        what=f"permissions on {right.alias}",
        found=str(right),
        verdict="problem",
        next_step=line,
        commands=(line,),
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
    for text in losses:
        yield told(what, text, "warning")
    for text in unwritable.values():
        yield told(what, text, "problem", GuardError.exit_code)
    if not hidden and not losses and not unwritable:
        yield CheckResult(what=what, found="the target's topics keep and take what the source's do")


def _hidden(cluster: Cluster, topics: Collection[str]) -> list[str]:
    rejections = Rejections()
    rejections.call(cluster.topic_config, topics)
    return list(rejections.texts.values())


def _internal(
    config: FlowConfig, heartbeats: HeartbeatsConfig | None, clusters: tuple[Cluster, Cluster]
) -> Iterator[CheckResult]:
    what = f"internal topics of {config.flow}"
    planned, faults = find_internal_topics(config, heartbeats, clusters)
    for text in faults:
        yield told(what, text, "warning")
    if not faults:
        new = sum(not topic.exists for topic in planned)
        yield CheckResult(what=what, found=f"{len(planned)}; {new} of them are to be created")
