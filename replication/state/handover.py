"""How long a new owner waits until nothing of the last one can write any more. Pure.

No clock of another machine is read. The new owner waits for a time of its own, counted from the
moment at which the group named it. The last owner stops by itself within `SILENCE_SECONDS` after
its last answered heartbeat, and its executors within `EXECUTOR_SECONDS` after they lost the driver.
"""

from dataclasses import dataclass
from typing import Final, Literal

from replication.kafka.ownership import SESSION_SECONDS, SILENCE_SECONDS

Executors = Literal["local", "cluster"]
"""Where tasks run: in the driver's process, or in processes that may outlive it."""

EXECUTOR_SECONDS: Final = 20
"""Executors that cannot reach the driver have ended by then; see the session's settings."""

REACTION_SECONDS: Final = 4
"""Between the end of a lease and the end of what its owner sends."""

AFTER_ANY_END: Final = max(SILENCE_SECONDS, EXECUTOR_SECONDS) + REACTION_SECONDS
"""The wait if nothing is known of the last owner but that it has lost the lease."""

AFTER_DEATH: Final = REACTION_SECONDS
"""The wait if the last owner's process is dead, with all its tasks: the JVM of a Python that was
killed notices that, and gives its producers 3 s (`jvm/plugin/KeptProducers`)."""

HEARTBEAT_SECONDS: Final = SESSION_SECONDS // 5

AFTER_EXPULSION: Final = AFTER_ANY_END - (SESSION_SECONDS - HEARTBEAT_SECONDS)
"""The wait of a standby: by then the last owner was silent for a session already."""

QUICK_JOIN_SECONDS: Final = 6.0
"""A group without silent members names its owner sooner, also with Kafka's initial delay of 3 s."""


@dataclass(frozen=True, slots=True)
class LastOwner:
    """The newest row of the table ``leases``.

    Args:
        owner: The claim's id.
        released: Whether the process ended the lease itself, after its query.
        machine: The machine and the lock file of the process.
        executors: Where its tasks ran; None in a row of an earlier version.
    """

    owner: str
    released: bool
    machine: str | None = None
    executors: str | None = None

    def has_died(self, machine: str) -> bool:
        """Returns whether it is dead, for a process that holds *machine*'s lock by now."""
        return self.executors == "local" and self.machine == machine


def handover_seconds(
    last: LastOwner | None, *, machine: str, seen: str = "", joined_in: float = 0.0
) -> float:
    """Returns how long the new owner waits, counted from the moment at which the group named it.

    Args:
        last: The newest row of ``leases``, None if there is none.
        machine: The machine and the lock file of this process, which holds that lock.
        seen: The claim's id of an owner that the group named before this one; empty for none.
        joined_in: Seconds until the group had named its owner. More than a few mean that a silent
            member, which may be the last owner, had to be expelled first.
    """
    if seen:
        is_seen = last is not None and last.owner == seen
        if last is not None and is_seen and (last.released or last.has_died(machine)):
            return 0.0 if last.released else AFTER_DEATH
        return AFTER_EXPULSION
    if last is not None and not last.released:
        return AFTER_DEATH if last.has_died(machine) else AFTER_ANY_END
    return 0.0 if joined_in <= QUICK_JOIN_SECONDS else AFTER_ANY_END
