"""How long a new owner waits until nothing of the last one can write any more. Pure.

No clock of another machine is read. The new owner waits for a time of its own, counted from the
moment at which the group named it. The times of the group (`LeaseTimes`) say what that must be:

    the last heartbeat that the owner knows to be answered was sent at           A
    it sends no record from then on, wherever it is                              A + silence
    its loop and its producers have given up what was under way                  A + silence + FLUSH
    the coordinator had heard that heartbeat, and expels it, at the earliest at  A + session
    the group names the next owner then or later, which waits                    `handover_seconds`

So it is safe if  session + wait >= silence + FLUSH. Executors in other processes than the driver's
end within `EXECUTOR_SECONDS` after they lost it, so for them that stands in place of the silence.
An owner that is alone in its group may be silent for longer: whoever comes later has not seen it,
and waits as after any end.
And no healthy owner ends because a member that died holds up a rebalance if
silence >= session + staleness. `tests/unit/test_handover.py` holds both.
"""

from dataclasses import dataclass
from typing import Final, Literal

from replication.kafka.ownership import QUICK, STEADY

Executors = Literal["local", "cluster"]
"""Where tasks run: in the driver's process, or in processes that may outlive it."""

EXECUTOR_SECONDS: Final = 20
"""Executors that cannot reach the driver have ended by then; see the session's settings."""

REACTION_SECONDS: Final = 4
"""Between the end of a lease and the end of what its owner sends, if little is known of it."""

FLUSH_SECONDS: Final = 2
"""The same where tasks run in the driver's process: its producers are closed at once."""

LEAST_SESSION: Final = min(QUICK.session, STEADY.session)

AFTER_ANY_END: Final = max(STEADY.alone, QUICK.alone, EXECUTOR_SECONDS) + REACTION_SECONDS
"""The wait if nothing is known of the last owner but that it has lost the lease."""

AFTER_DEATH: Final = REACTION_SECONDS
"""The wait if the last owner's process is dead, with all its tasks: the JVM of a Python that was
killed notices that, and gives its producers 3 s (`jvm/plugin/KeptProducers`)."""

AFTER_EXPULSION: Final = AFTER_ANY_END - LEAST_SESSION
"""The wait of a standby: by then the last owner was silent for a session already."""

QUICK_JOIN_SECONDS: Final = 5.0
"""A group without silent members names its owner sooner, also with Kafka's initial delay of 3 s."""


@dataclass(frozen=True, slots=True)
class LastOwner:
    """The newest row of the table ``leases``.

    Args:
        owner: The claim's id.
        released: Whether the process ended the lease itself, after its query.
        machine: The machine and the lock file of the process.
        executors: Where its tasks ran; None in a row of an earlier version.
        silence: After how many seconds without an answer it stops; None in such a row.
    """

    owner: str
    released: bool
    machine: str | None = None
    executors: str | None = None
    silence: float | None = None

    @property
    def after_expulsion(self) -> float:
        """How long a standby waits that has seen it."""
        if self.executors != "local" or self.silence is None:
            return AFTER_EXPULSION
        return min(AFTER_EXPULSION, self.silence + FLUSH_SECONDS - LEAST_SESSION)

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
        if last is None or last.owner != seen:
            return AFTER_EXPULSION
        if last.released or last.has_died(machine):
            return 0.0 if last.released else AFTER_DEATH
        return last.after_expulsion
    if last is not None and not last.released:
        return AFTER_DEATH if last.has_died(machine) else AFTER_ANY_END
    return 0.0 if joined_in <= QUICK_JOIN_SECONDS else AFTER_ANY_END
