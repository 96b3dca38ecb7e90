"""Whether a flow runs, as far as this machine and the group of its lease can tell."""

from replication.config.tree import FlowConfig, MirrorConfig
from replication.control.witness import Coordinators
from replication.errors import ClusterError, LeaseError
from replication.model import RECORDS
from replication.state.job_lock import find_job_owner


def runner_of(mirror: MirrorConfig, config: FlowConfig) -> str:
    """Returns who copies the records of *config*'s flow, in words; "" if nobody does.

    A process that has just begun may hold the lock on this machine, and not yet be in the group.

    Raises:
        ClusterError: The target does not say who is in the group.
        StateError: The state directory cannot be read.
    """
    for job in sorted(RECORDS):
        if owner := find_job_owner(mirror.state_dir, config.flow, job):
            return str(owner)
    with Coordinators() as coordinators:
        witness = coordinators.ask([config])[config.flow]
    if witness.members is None:
        raise ClusterError(
            f"cannot see whether {config.flow} runs: cluster {witness.cluster} does not say who is "
            f"in group {witness.group}: {witness.reason}"
        )
    if not witness.members:
        return ""
    return (
        f"group {witness.group} on cluster {witness.cluster} has a member (a killed process stays "
        "one for about 10 s)"
    )


def refuse_running(mirror: MirrorConfig, config: FlowConfig) -> None:
    """Raises an error if the records of *config*'s flow are being copied.

    Raises:
        LeaseError: They are; the text names who copies them.
        ClusterError: The target does not say it.
        StateError: The state directory cannot be read.
    """
    if runner := runner_of(mirror, config):
        raise LeaseError(
            f"flow {config.flow} runs: {runner}. Its positions move on, so none is moved by hand: "
            f"stop it first, python -m replication stop FILE --flow '{config.flow}'"
        )
