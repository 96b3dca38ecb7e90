"""The leases that a process needs, claimed before Spark starts.

Joining a group takes seconds, in which Spark starts. A process that another one keeps from running
its flows is refused at once and needs no Spark. A standby that will run for long starts Spark in
its own process and waits with all that its flows need. One that would keep executors waits without,
and so does a drain.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from replication.app.background import is_drain, wants_checkpoints, wants_metadata
from replication.config.tree import FlowConfig, MirrorConfig
from replication.errors import SetupError
from replication.flows.context import claim_lease
from replication.kafka.jvm import has_our_classes
from replication.log import Log
from replication.model import Flow, Job, runs
from replication.spark.session import driver_jvm
from replication.state.claim import Claim, ClaimStep, LeaseName, leave
from replication.state.lease import executors_here
from replication.state.paths import local_path
from replication.state.stop_requests import is_stop_file_there

log = Log(__name__)

Claims = dict[LeaseName, Claim]

POLL_SECONDS: Final = 0.2
FIRST_ANSWER_SECONDS: Final = 5.0
"""A living owner is known by then. Without an answer Spark starts, and the flow waits on. On a
local state directory there is no wait at all: the lock has answered for this machine."""


@dataclass(frozen=True, slots=True)
class Launch:
    """What one process is to run.

    Args:
        config: The whole configuration.
        chosen: The flows; none if the process emits heartbeats only.
        job: What runs of them.
        standby: Whether to wait while another process runs a flow.
    """

    config: MirrorConfig
    chosen: Sequence[FlowConfig]
    job: Job
    standby: bool = False

    @property
    def names(self) -> tuple[Flow, ...]:
        """What runs, for locks and stop requests; see `MirrorConfig.names`."""
        return tuple(flow.flow for flow in self.chosen) or self.config.names


@contextmanager
def open_claims(launch: Launch) -> Iterator[Claims]:
    """Yields the claims of *launch*, which end with the block.

    Raises:
        SetupError: The class that joins is missing, and nothing else protects the state directory.
    """
    state_dir, jvm = launch.config.state_dir, driver_jvm()
    if not has_our_classes(jvm):
        text = "replication.jar is not on Spark's class path; pass it with --jars"
        if local_path(state_dir) is None:
            raise SetupError(f"no lease can be held: {text}")
        log.warning("lease_by_lock_only", text=f"other machines are not kept out: {text}")
    claims = {
        name: claim_lease(jvm, state_dir, flow, name, is_quick=launch.standby)
        for flow in launch.chosen
        for name in _leases_of(flow, launch.job)
    }
    mine = list(claims.values())  # a flow takes its own out of the mapping
    try:
        yield claims
    finally:
        leave(mine)


def await_first(launch: Launch, claims: Claims, turn: Callable[[], None]) -> bool:
    """Waits until Spark is worth starting; returns False if a stop was requested meanwhile.

    A standby that waits without Spark does so until it may replicate the records of a first flow.
    Other processes wait only a few seconds, long enough to learn of every live owner. The claims of
    other parts are made unless the records wait: whoever waits must not keep another process from
    the checkpoints. *turn* is called all the time.

    Raises:
        LeaseError: Another process replicates the records of a flow, and this one is no standby.
        ClusterError: A group cannot be joined.
    """
    records = [claim for name, claim in claims.items() if not name.part]
    is_local = local_path(launch.config.state_dir) is not None
    deadline = time.monotonic() + (0 if is_local else FIRST_ANSWER_SECONDS)
    waits = launch.standby and not _is_warm(launch)
    seen: set[ClaimStep] = set()
    while records:
        seen = {claim.await_step(standby=launch.standby) for claim in records}
        is_late = not waits and time.monotonic() > deadline
        if is_late or ("owner" in seen if waits else "joining" not in seen):
            break
        if is_stop_file_there():
            return False
        turn()
        time.sleep(POLL_SECONDS)
    if waits or not launch.standby or seen <= {"owner"}:
        for claim in claims.values():
            claim.look()
    return True


def _is_warm(launch: Launch) -> bool:
    """Returns whether a standby has Spark while it waits."""
    return executors_here() == "local" and not is_drain(launch.config, launch.chosen)


def _leases_of(flow: FlowConfig, job: Job) -> Iterator[LeaseName]:
    if runs(job, "records"):
        yield LeaseName(flow.flow)
    if wants_checkpoints(flow, job):
        yield LeaseName(flow.flow, "checkpoints")
    if wants_metadata(flow, job):
        yield LeaseName(flow.flow, "metadata")
