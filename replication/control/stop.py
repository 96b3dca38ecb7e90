"""Stops jobs, and asks the groups of their leases where the state directory does not tell of them.

A remote state directory has no locks, and a local one in which no job ever began may be another
folder than the job's. A job that holds a lease is a member of the lease's group on the target.
"""

from collections.abc import Collection, Iterator, Mapping

from replication.config.tree import FlowConfig, MirrorConfig
from replication.control.lease_groups import LeaseGroup, LeaseGroups
from replication.control.positions import flow_positions
from replication.errors import NoAnswerError, ReplicationError
from replication.model import RECORDS, Flow, Job, TopicPartition
from replication.state.claim import LEASE_PARTS
from replication.state.requests import StopKind, UnansweredError, prefix_of, request_stop


def stop_flows(
    mirror: MirrorConfig,
    flows: Collection[Flow],
    job: Job,
    timeout_seconds: float,
    reason: str = "",
    kind: StopKind = "stop",
) -> dict[Flow, int]:
    """Asks the process that runs *job* of *flows* to stop, and waits until it has.

    *kind* says whether at once, or when it has caught up.

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
            return request_stop(
                mirror.access, flows, timeout_seconds, job, reason, without_members, kind
            )
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


def stop_when_caught_up(
    mirror: MirrorConfig,
    flows: Collection[FlowConfig],
    job: Job,
    timeout_seconds: float,
    reason: str = "",
) -> dict[Flow, int]:
    """Asks the process that runs *flows* to end each once it has copied what is there now.

    Returns:
        What `stop_flows` returns; `NOT_CAUGHT_UP` for one that has ended before.

    Raises:
        NoAnswerError: One had not caught up in time, and goes on; the text says what is missing.
        StateError, SetupError: As of `stop_flows`.
    """
    names = [config.flow for config in flows]
    ends = {config.flow: _ends(mirror, config) for config in flows}
    try:
        return stop_flows(mirror, names, job, timeout_seconds, reason, "catchup")
    except UnansweredError as error:
        begins = {flow: prefix_of(mirror.state_dir, "catchup", flow, job) for flow in names}
        left = {flow for flow in names if any(p.startswith(begins[flow]) for p in error.left)}
    missing = [
        f"\n  - {config.flow}: {text}"
        for config in flows
        if config.flow in left
        for text in _missing(mirror, config, ends[config.flow])
    ]
    if stopped := [str(flow) for flow in names if flow not in left]:
        missing.append(f"\n  - nothing of {', '.join(stopped)}, which no process runs any more")
    names_left = ", ".join(sorted(map(str, left)))
    text = f"not caught up after {timeout_seconds:g} s, and goes on: {names_left}; what is missing:"
    raise NoAnswerError("".join([text, *missing]))


def _ends(mirror: MirrorConfig, config: FlowConfig) -> dict[TopicPartition, int | None]:
    """Returns where the source ends now, None where nobody knows."""
    found = flow_positions(mirror, config, ()).positions
    return {one.partition: one.end for one in found}


def _missing(
    mirror: MirrorConfig, config: FlowConfig, ends: Mapping[TopicPartition, int | None]
) -> Iterator[str]:
    """Yields what is not copied of each topic up to *ends*, and why if the flow says so."""
    try:
        found = flow_positions(mirror, config, ())
    except ReplicationError as error:
        yield f"that is not known: {error}"
        return
    missing: dict[str, list[int | None]] = {}
    why: dict[str, str] = {}
    for one in found.positions:
        end, at = ends.get(one.partition, 0), one.position.upstream if one.position else 0
        left = None if end is None else max(0, end - at)
        holds_up = left != 0 or one.state in ("set-aside", "leaderless")
        if not holds_up or one.state in ("gone", "not selected"):
            continue
        missing.setdefault(one.partition.topic, []).append(left)
        if one.state not in ("copying", "lagging"):
            why[one.partition.topic] = f" ({one.state}{': ' * bool(one.reason)}{one.reason})"
    for topic, some in missing.items():
        at_least = "at least " if None in some else ""
        count = f"{len(some)} partition{'s' if len(some) > 1 else ''}"
        yield f"{topic}: {at_least}{sum(filter(None, some))} offsets in {count}{why.get(topic, '')}"
    if not (missing or found.problems):
        yield "nothing by now, so it may have been about to end: status says whether it has"
    yield from found.problems


def _witnesses(
    coordinators: LeaseGroups, mirror: MirrorConfig, flows: Collection[Flow], job: Job
) -> Mapping[Flow, LeaseGroup]:
    """Returns what the groups of the leases of *job* say; nothing of a job that needs none."""
    part = "" if job in RECORDS else job
    if part not in LEASE_PARTS:
        return {}
    return coordinators.ask([flow for flow in mirror.flows if flow.flow in flows], part)
