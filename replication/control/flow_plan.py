"""The answer of `replication.control.plan`: what a start of a flow would do, as a value."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from replication.config.tree import FlowConfig
from replication.control.resumes import Start
from replication.model import TopicAcl
from replication.topics.acl_sync import AclPlan
from replication.topics.topic_plan import TopicPlan
from replication.upkeep.settings import TopicChanges

NO_ACLS = AclPlan()
Purpose = Literal["heartbeats", "checkpoints", "offset syncs"]


@dataclass(frozen=True, slots=True)
class InternalTopic:
    """A topic that the mirror itself writes."""

    name: str
    cluster: str
    purpose: Purpose
    exists: bool


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
    """

    config: FlowConfig
    topics: TopicPlan
    starts: tuple[Start, ...]
    internal_topics: tuple[InternalTopic, ...]
    settings: tuple[TopicChanges, ...] = ()
    acls: AclPlan = NO_ACLS
    cluster_ids: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    @property
    def problems(self) -> tuple[str, ...]:
        """Why the flow would not start, or would leave something out, one line each."""
        aside = (f"{topic}: {text}" for topic, text in self.topics.rejected.items())
        unsafe = (start for start in self.starts if start.origin == "problem")
        lines = (f"{start.partition}: {start.reason}" for start in unsafe)
        leaderless = (f"{tp}: no broker leads it on one side" for tp in self.topics.leaderless)
        return (*aside, *leaderless, *lines)

    def to_do(self, start: Start) -> str:
        """Returns what becomes of the remote topic of *start* first; empty if nothing does."""
        remote = self.topics.topics[start.partition.topic]
        if remote in self.topics.grow:
            return f"grow to {self.topics.grow[remote]} partitions"
        return "create" if remote in {topic.name for topic in self.topics.create} else ""

    def acl_steps(self) -> Iterator[tuple[str, TopicAcl]]:
        """Yields each ACL with what is done; ``keep``: gone on the source, but not removed."""
        yield from (("create", acl) for acl in self.acls.create)
        yield from (("remove", acl) for acl in self.acls.remove)
        yield from (("keep", acl) for acl in self.acls.keep)

    def document(self) -> dict[str, object]:
        """What a command prints as JSON."""
        return {
            "flow": str(self.config.flow),
            "topics": [self._topic(*names) for names in self.topics.topics.items()],
            "set_aside": dict(self.topics.rejected),
            "left_out": dict(self.topics.left_out),
            "internal_topics": [
                {
                    "topic": topic.name,
                    "cluster": topic.cluster,
                    "purpose": topic.purpose,
                    "exists": topic.exists,
                }
                for topic in self.internal_topics
            ],
            "settings": list(self._settings()),
            "acls": [
                {
                    "to_do": action,
                    "topic": acl.topic,
                    "pattern": acl.pattern,
                    "principal": acl.principal,
                    "host": acl.host,
                    "operation": acl.operation,
                    "permission": acl.permission,
                }
                for action, acl in self.acl_steps()
            ],
            "warnings": self.warnings,
            "problems": self.problems,
        }

    def _topic(self, topic: str, remote: str) -> dict[str, object]:
        return {
            "topic": topic,
            "remote_topic": remote,
            "create": remote in {new.name for new in self.topics.create},
            "grow_to": self.topics.grow.get(remote),
            "partitions": [
                {
                    "partition": start.partition.partition,
                    "offset": start.offset,
                    "origin": start.origin,
                    "reason": start.reason,
                }
                for start in self.starts
                if start.partition.topic == topic
            ],
        }

    def _settings(self) -> Iterator[dict[str, object]]:
        for topic in self.settings:
            for change in topic.changes:
                yield {
                    "remote_topic": topic.remote.name,
                    "key": change.key,
                    "previous": change.before,
                    "value": change.value,
                    "overwrites_a_change": change.is_conflict,
                }
