"""What the board of a flow shows of it, until an observer has measured more."""

import os
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from replication.figures.observation import FlowState, Observation, Owner
from replication.figures.words import Holder
from replication.flows.board import Activity
from replication.flows.context import FlowContext
from replication.model import Job, Part, runs

STATES: Final[Mapping[Activity, FlowState]] = {
    "starting": "starting",
    "replicating": "running",
    "waiting": "waiting",
    "ended": "stopping",
}


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
    lease, owner = context.held.get(""), None
    if lease is not None:
        owner = Owner(lease.claim.host, os.getpid(), lease.claim.since.timestamp())
    return Observation(
        context.config.flow,
        time.time(),
        state,
        shown.state.since,
        reason=shown.state.reason,
        owner=owner,
        epoch=None if lease is None else lease.epoch,
        mode=copying.mode,
        runs=job,
        generation=max(copying.generations, default=None),
        figures={"records_total": float(sum(copying.records.values()))},
    )


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


_SPOKEN: Final[Mapping[str, Part]] = {"": "records", "checkpoints": "checkpoints"}
"""The parts that have a lease and a word, by the lease's name of them."""


def holders_of(context: FlowContext, job: Job, *, at_end: bool) -> dict[Part, Holder]:
    """Returns for which parts of a flow this process may speak now.

    Args:
        context: The flow.
        job: What the process runs.
        at_end: Whether the flow has ended, so that its leases have been given back.
    """
    found: dict[Part, Holder] = {}
    for name, part in _SPOKEN.items():
        lease = context.held.get(name)
        if name in context.spoke_as and (at_end or (lease is not None and lease.is_held)):
            found[part] = context.spoke_as[name]
    if runs(job, "heartbeats") and ("records" in found or not runs(job, "records")):
        found["heartbeats"] = found.get("records", _without_lease(context))
    return found


def _without_lease(context: FlowContext) -> Holder:
    return Holder(0, "", f"{os.uname().nodename}/{context.config.flow}/{os.getpid()}")
