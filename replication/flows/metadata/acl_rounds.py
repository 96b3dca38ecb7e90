"""Copies topic ACLs to the remote topics, as MirrorMaker 2 does.

A round compares both clusters and what was created before, changes what differs, and records it in
the table ``topic_acls``. A cluster without an authorizer, or a missing permission, is logged once.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final

from replication.flows.context import FlowContext
from replication.flows.metadata.history import FlowHistory
from replication.kafka.acls import NoAclsError, TopicAcls
from replication.model import NewEvent, TopicAcl
from replication.topics.acl_sync import AclHistory
from replication.upkeep.acls import AclOutcome, apply_acls, plan_acl_sync

TABLE: Final = "topic_acls"


class AclSync:
    """One flow's rounds, and what one remembers for the next."""

    failure: Final = "acl_sync_failed"

    def __init__(self, context: FlowContext) -> None:
        self._context = context
        self._flow = context.config.flow
        self.history = FlowHistory(context, TABLE, AclHistory.of)
        self._problem = ""

    @property
    def interval_seconds(self) -> int:
        """Between two rounds."""
        return self._context.config.acls.sync_interval_seconds

    def round(self) -> None:
        """Compares the ACLs of all topics and changes what differs.

        Raises:
            ClusterError: A cluster does not answer; the next round compares again.
            StateError: The tables cannot be read or written.
        """
        try:
            self._sync()
        except NoAclsError as error:
            self._report_problem(error)
        else:
            self._problem = ""

    def _report_problem(self, error: NoAclsError) -> None:
        """Logs what keeps ACLs from being copied, once until it changes."""
        if str(error) != self._problem:
            self._problem = str(error)
            if error.has_authorizer:
                self._context.log.warning("acls_not_copied", text=error)
            else:
                self._context.log.info("acls_not_copied", text=error)

    def _sync(self) -> None:
        config, jvm, history = self._context.config, self._context.jvm, self.history.get()
        outcomes: list[AclOutcome] = []
        with (
            TopicAcls(jvm, config.source.alias, config.source.admin) as source,
            TopicAcls(jvm, config.target.alias, config.target.admin) as target,
        ):
            plan = plan_acl_sync(config, source, target, history.created)
            try:
                for outcome in apply_acls(target, plan, partial(self._context.act, "metadata")):
                    outcomes.append(outcome)  # noqa: PERF402 - what is done counts if the rest fails
            finally:
                self._settle(outcomes, history)

    def _settle(self, outcomes: Iterable[AclOutcome], history: AclHistory) -> None:
        """Records and reports *outcomes*; a rejection that was reported before is left out."""
        news = [
            outcome
            for outcome in outcomes
            if outcome.rejection is None or (outcome.action, outcome.acl) not in history.rejected
        ]
        created = {
            outcome.acl
            for outcome in news
            if outcome.action == "create" and outcome.rejection is None
        }
        restored = created & history.created
        self._record(news, history)
        self._report_restored(restored)
        self._report(
            outcome
            for outcome in news
            if outcome.action != "forget" and outcome.acl not in restored
        )

    def _report_restored(self, acls: Iterable[TopicAcl]) -> None:
        """Writes one event for the ACLs that somebody else removed on the target."""
        text = ", ".join(map(str, sorted(acls)))
        if text:
            flow = self._flow
            self._context.tables.record_event(
                flow,
                "acl-restored",
                f"ACLs that somebody removed on {flow.target} were created again, since "
                f"{flow.source} still has them: {text}. To withdraw an access on {flow.target} "
                f"only, create a DENY there",
                reaction="overwrite",
            )

    def _report(self, outcomes: Iterable[AclOutcome]) -> None:
        """Logs each action and topic, and writes an event for each reason of a rejection."""
        flow, grouped, events = self._flow, defaultdict(list), []
        for outcome in outcomes:
            grouped[outcome.action, outcome.acl.topic, outcome.rejection].append(str(outcome.acl))
        for (action, topic, rejection), acls in grouped.items():
            text = ", ".join(acls)
            if rejection is None:
                is_new = action == "create"
                self._context.log.info(
                    "acl_created" if is_new else "acl_removed", topic=topic, text=text
                )
                continue
            rejected = (
                f"{flow.target} did not {action} these ACLs: {text}: {rejection}. It is tried "
                "again at every interval"
            )
            events.append(NewEvent("acl-rejected", rejected, "retry", {"topic": topic}))
        self._context.tables.record_events(flow, events)

    def _record(self, outcomes: Sequence[AclOutcome], history: AclHistory) -> None:
        self.history.append(
            {
                "action": outcome.action,
                "remote_topic": outcome.acl.topic,
                "pattern": outcome.acl.pattern,
                "principal": outcome.acl.principal,
                "host": outcome.acl.host,
                "operation": outcome.acl.operation,
                "permission": outcome.acl.permission,
                "rejection": outcome.rejection,
            }
            for outcome in outcomes
        )
        for outcome in outcomes:
            history.add(outcome.action, outcome.acl, outcome.rejection)
