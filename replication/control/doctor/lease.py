"""Which process runs each flow: by the locks on this machine, and by the group of its lease."""

import time
from collections.abc import Iterator
from typing import Final

from replication.config.tree import MirrorConfig
from replication.control.doctor.judgement import Judgement, failed, unknown
from replication.control.witness import Coordinators, Witness
from replication.state.job_lock import find_job_owner

AGAIN_SECONDS: Final = 2.0


def look_at_leases(config: MirrorConfig) -> Iterator[Judgement]:
    """Yields for each flow who holds its lease.

    Raises:
        StateError: The state directory cannot be read.
    """
    with Coordinators() as coordinators:
        witnesses = coordinators.ask(config.flows)
        if any(witness.members is None for witness in witnesses.values()):
            time.sleep(AGAIN_SECONDS)  # a new cluster creates its groups' topic when first asked
            witnesses = coordinators.ask(config.flows)
    for flow in config.flows:
        owner = find_job_owner(config.state_dir, flow.flow)
        yield judge_lease(f"lease of {flow.flow}", config.file, owner, witnesses[flow.flow])


def judge_lease(what: str, file: str, owner: object | None, witness: Witness) -> Judgement:
    """Returns what follows from the process *owner* on this machine and from the lease's group."""
    if witness.members is None:
        if witness.denied is not None:
            return failed(what, witness.denied)
        return unknown(what, witness.reason)
    if owner is not None and witness.members:
        return Judgement(what=what, found=f"held, and the flow runs here: {owner}")
    if owner is not None:
        return Judgement(
            what=what,
            found=f"not held (group {witness.group} has no member), although {owner} has the flow",
            verdict="warning",
            next_step=f"python -m replication status {file} says what that process does",
        )
    if witness.members:
        return Judgement(
            what=what,
            found=f"held by a process that does not run here (group {witness.group})",
            verdict="warning",
            next_step="stop that process before you start this one, or start this one with "
            f"--standby; python -m replication status {file} names it",
        )
    return Judgement(what=what, found="free")
