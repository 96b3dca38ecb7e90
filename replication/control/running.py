"""Whether partitions of a flow are being copied, as far as this machine and others can tell."""

from collections.abc import Collection
from dataclasses import dataclass

from replication.config.steering import Steering
from replication.config.tree import FlowConfig, MirrorConfig
from replication.control.changed import read_all
from replication.control.witness import Coordinators
from replication.errors import ClusterError, LeaseError
from replication.model import RECORDS, Flow, TopicPartition
from replication.state.change_files import open_changes
from replication.state.job_lock import find_job_owner


@dataclass(frozen=True, slots=True)
class Running:
    """What of a flow is being copied.

    Args:
        flow: The flow.
        by: Who copies it, in words; "" if nobody does.
        steering: What operators have changed of it.
        is_in_force: Whether whoever copies it has said that all pauses are in force.
    """

    flow: Flow
    by: str
    steering: Steering
    is_in_force: bool = True

    def refuse(self, partitions: Collection[TopicPartition]) -> None:
        """Raises an error if any of *partitions* is being copied.

        Raises:
            LeaseError: One is; the text names whoever copies it, and the command that pauses it.
        """
        paused = self.steering.paused
        copied = [tp for tp in sorted(partitions) if not paused.covers(tp)]
        if not self.by or (not copied and self.is_in_force):
            return
        runs = f"flow {self.flow} runs: {self.by}"
        if not copied:
            raise LeaseError(f"{runs}. The pause is not in force there yet: ask again in a moment")
        named = f"--topic {copied[0].topic} --partition {copied[0].partition}"
        more = f" and {len(copied) - 1} more" if len(copied) > 1 else ""
        raise LeaseError(
            f"{runs}. {copied[0]}{more} is being copied, so its position moves on: pause it first, "
            f"python -m replication pause FILE --flow '{self.flow}' {named}, or stop the flow, "
            f"python -m replication stop FILE --flow '{self.flow}'"
        )


def running_now(mirror: MirrorConfig, config: FlowConfig) -> Running:
    """Returns what of *config*'s flow is being copied.

    Raises:
        ClusterError: The target does not say who is in the group of the lease.
        StateError: The state directory cannot be read.
        SetupError: Only Hadoop's client reaches the state directory, and Java does not start.
    """
    flow = config.flow
    with open_changes(mirror.access, [flow]) as changes:
        steering, applied = read_all(changes[flow]), changes[flow].applied()
    pauses = {each.name for each in steering.in_force if each.what in ("pause", "hold")}
    is_in_force = applied is not None and pauses <= applied.names
    return Running(flow, _runner(mirror, config), steering, is_in_force)


def _runner(mirror: MirrorConfig, config: FlowConfig) -> str:
    """Returns who copies the records of *config*'s flow, in words; "" if nobody does.

    A process that has just begun may hold the lock on this machine, and not yet be in the group.
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
