"""Stops jobs, and asks the groups of their leases where the state directory does not tell of them.

A remote state directory has no locks, and a local one in which no job ever began may be another
folder than the job's. A job that holds a lease is a member of the lease's group on the target.
"""

from collections.abc import Collection, Mapping

from replication.config.tree import MirrorConfig
from replication.control.lease_groups import LeaseGroup, LeaseGroups
from replication.errors import NoAnswerError
from replication.model import RECORDS, Flow, Job
from replication.state.claim import LEASE_PARTS
from replication.state.requests import request_stop


def stop_flows(
    mirror: MirrorConfig,
    flows: Collection[Flow],
    job: Job,
    timeout_seconds: float,
    reason: str = "",
) -> dict[Flow, int]:
    """Asks the process that runs *job* of *flows* to stop, and waits until it has.

    Returns:
        The exit code of each flow that was running, 0 for a clean end; the others need no stop.

    Raises:
        StateError: The process did not stop in time, or the state directory cannot be written.
        NoAnswerError: No job ever began with the local state directory, and one may run.
        SetupError: Only Hadoop's client reaches the state directory, and Java does not start.
    """
    with LeaseGroups() as coordinators:

        def without_members(asked: Collection[Flow]) -> set[Flow]:
            """Returns those of *asked* of whose lease it is known that nobody holds it."""
            found = _witnesses(coordinators, mirror, asked, job)
            return {flow for flow, witness in found.items() if witness.members == frozenset()}

        try:
            return request_stop(mirror.access, flows, timeout_seconds, job, reason, without_members)
        except NoAnswerError as error:
            found = _witnesses(coordinators, mirror, flows, job)
            told = [witness for witness in found.values() if witness.members is not None]
            held = [f"{one.group} on {one.cluster}" for one in told if one.members]
            if held:
                raise NoAnswerError(
                    f"{error}. One does: {', '.join(held)} has a member, so stop it from where its "
                    "state.dir is"
                ) from error
            if len(told) < len(flows):
                raise
            return {}


def _witnesses(
    coordinators: LeaseGroups, mirror: MirrorConfig, flows: Collection[Flow], job: Job
) -> Mapping[Flow, LeaseGroup]:
    """Returns what the groups of the leases of *job* say; nothing of a job that needs none."""
    part = "" if job in RECORDS else job
    if part not in LEASE_PARTS:
        return {}
    return coordinators.ask([flow for flow in mirror.flows if flow.flow in flows], part)
