"""What the board of a flow shows of it, until an observer has measured more."""

import os
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from replication.figures.observation import FlowState, Observation, Owner
from replication.figures.words import Holder
from replication.flows.board import Activity, Copying
from replication.flows.context import FlowContext
from replication.model import Job, Part, runs

STATES: Final[Mapping[Activity, FlowState]] = {
    "starting": "starting",
    "replicating": "running",
    "waiting": "waiting",
    "paused": "paused",
    "ended": "stopping",
}


LEASED: Final[Mapping[str, Part]] = {
    "": "records",
    "checkpoints": "checkpoints",
    "metadata": "metadata",
}
"""The parts that have a lease, by the lease's name of them."""


def look_at(context: FlowContext, job: Job) -> Observation:
    """Returns what is known of the flow now without asking anybody."""
    shown = context.board.look()
    state = STATES[shown.state.activity]
    if not runs(job, "records"):
        state = "running"
    elif state == "running" and context.config.mode == "drain":
        state = "draining"
    if context.outages.is_standby:
        state = "standby"
    copying = shown.copying
    lease = context.held.get("")
    return Observation(
        context.config.flow,
        time.time(),
        state,
        shown.state.since,
        reason=shown.state.reason,
        owner=_owner(context, job),
        epoch=None if lease is None else lease.epoch,
        mode=copying.mode,
        runs=job,
        generation=max(copying.generations, default=None),
        figures=_counted(copying) if runs(job, "records") else {},
    )


def _counted(copying: Copying) -> dict[str, float]:
    return {"records_total": float(sum(copying.records.values()))}


def _owner(context: FlowContext, job: Job) -> Owner | None:
    """Returns this process as the owner of the records, or of the part that it runs alone."""
    own = ("",) if runs(job, "records") else ("checkpoints", "metadata")
    for name in own:
        if (lease := context.held.get(name)) is not None:
            claim = lease.claim
            return Owner(claim.host, os.getpid(), claim.since.timestamp(), LEASED[name])
    if runs(job, "heartbeats") and not runs(job, "records"):
        since = context.board.look().state.since
        return Owner(os.uname().nodename, os.getpid(), since, "heartbeats")
    return None


def last_look(
    observed: Observation, error: BaseException | None, exit_code: int, *, is_drained: bool
) -> Observation:
    """Returns the last word of a flow that has ended: how, and why if it has failed.

    Args:
        observed: What was known of it.
        error: What ended it; None for a clean end.
        exit_code: That of a process that ends with *error*.
        is_drained: Whether a drain has copied everything.
    """
    now = time.time()
    ended: FlowState = "drained" if is_drained else "stopped"
    return replace(
        observed,
        as_of=now,
        since=now,
        state="failed" if error is not None else ended,
        reason="",
        ended_at=now,
        exit_code=exit_code,
        text="" if error is None else str(error),
    )


def holders_of(context: FlowContext, job: Job, *, at_end: bool) -> dict[Part, Holder]:
    """Returns for which parts of a flow this process may speak now.

    Args:
        context: The flow.
        job: What the process runs.
        at_end: Whether the flow has ended, so that its leases have been given back.
    """
    found: dict[Part, Holder] = {}
    for name, part in LEASED.items():
        if part == "metadata" and runs(job, "records"):  # the word of the records tells of it
            continue
        lease = context.held.get(name)
        if name in context.spoke_as and (at_end or (lease is not None and lease.is_held)):
            found[part] = context.spoke_as[name]
    if runs(job, "heartbeats") and ("records" in found or not runs(job, "records")):
        found["heartbeats"] = found.get("records", _without_lease(context))
    return found


def _without_lease(context: FlowContext) -> Holder:
    return Holder(0, "", f"{os.uname().nodename}/{context.config.flow}/{os.getpid()}")
