"""The process that ran a flow last, by the table ``leases``. Imports neither Spark nor a client."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from replication.state.claim import instance_id


@dataclass(frozen=True, slots=True)
class Process:
    """The process that ran a flow last.

    Args:
        host: Its machine.
        since: When it took the flow.
        released: When it gave it back; None if it still has it, or was killed.
        machine: Of it and its lock file, as a claim names them; None where that is not known.
    """

    host: str
    since: datetime
    released: datetime | None
    machine: str | None = None

    def instance(self, state_dir: str) -> str | None:
        """Returns its static id in the group of a lease, if it ran with that *state_dir*."""
        host = self.host.partition(",")[0]
        return instance_id(host, state_dir, self.machine) if self.machine else None

    def document(self) -> dict[str, object]:
        """Returns what a command prints as JSON."""
        return {
            "host": self.host,
            "since": self.since.isoformat(),
            "released": self.released and self.released.isoformat(),
        }


def last_process(leases: Iterable[Mapping[str, Any]]) -> Process | None:
    """Returns the process that took the lease last, by the flow's rows of the table ``leases``."""
    rows = sorted(leases, key=lambda row: (row["epoch"], row["renewed"]))
    if not rows:
        return None
    last = rows[-1]
    first = next(row for row in rows if row["epoch"] == last["epoch"])
    # a standby's column ``since`` is older: it waited before it took the lease
    released = last["renewed"] if last["released"] else None
    return Process(last["host"], first["renewed"], released, last.get("machine"))
