"""A claim to a lease: first a kernel lock on this machine, then membership of the lease's group.

The group decides. The lock answers at once on one machine, also after a kill -9, and keeps a second
process from taking the place of the first one in the group: processes with the same lock file have
the same static member, and no others.
"""

import hashlib
import os
import re
import socket
import tempfile
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal

from py4j.java_gateway import JVMView

from replication.config.client_keys import with_defaults
from replication.errors import ClusterError
from replication.kafka.api import JOIN_GROUP, ClientFailure
from replication.kafka.diagnosis import CallError, call_error
from replication.kafka.jvm import has_our_classes
from replication.kafka.ownership import Member, Ownership
from replication.kafka.reach import bound_s, reach_of
from replication.log import Log
from replication.model import LEASE_GROUP_PREFIX, Flow
from replication.state.folder import local_path
from replication.state.locks import PROBE_SECONDS, FileLock, already_running, find_owner, take_lock

log = Log(__name__)

ClaimStep = Literal["joining", "waiting", "owner"]
Join = Callable[[Member], Ownership]

LEASE_PARTS: Final = ("", "checkpoints", "metadata")
"""The parts of a flow that have a lease; the first is that of its records."""

BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True)
class LeaseName:
    """What a lease is for: the records of a flow, or another *part* of it."""

    flow: Flow
    part: str = ""

    def __str__(self) -> str:
        return f"{self.flow} {self.part}".rstrip()

    @property
    def slug(self) -> str:
        return f"{self.flow.slug} {self.part}".rstrip()

    @property
    def group(self) -> str:
        """The consumer group on the target. `groups.exclude` leaves such names out by default."""
        return f"{LEASE_GROUP_PREFIX}{self.flow.slug}.{self.part or 'records'}"


ANSWER_STEP: Final = "check that its brokers answer"
REFUSED: Final = (("SslAuthentication", "_SSL"), ("Authentication", "_AUTHENTICATION"))
"""What ends an attempt to join for good, by part of the class of Java's exception."""

NO_PROPERTIES: Final[Mapping[str, str]] = MappingProxyType({})


class NoLeaseAnswerError(ClusterError):
    """The target did not say who holds the lease; a new claim may be answered."""


class Claim(AbstractContextManager["Claim"]):
    """A process that wants a lease: waits for it, holds it, or has lost it.

    Args:
        name: Of the lease.
        state_dir: The state directory.
        join: Joins the lease's group. None where this process cannot: then the lock alone decides.
        producer: client.id of the producers that may send only while the lease is held.
        target: Client properties of the target, for what an operator is told of it.
        host: Of this process; a parameter because tests need two.
        is_quick: Whether another process stands by, or may.
    """

    def __init__(
        self,
        name: LeaseName,
        state_dir: str,
        join: Join | None,
        *,
        producer: str = "",
        target: Mapping[str, str] = NO_PROPERTIES,
        host: str = "",
        is_quick: bool = False,
    ) -> None:
        self.name = name
        self._is_quick = is_quick
        self.id = str(uuid.uuid4())
        self._target = target
        self.host = host or socket.gethostname()
        self.since = datetime.now(timezone.utc)
        self.seen = ""
        self.joined_in = 0.0
        self.named_at = 0.0
        self._lock_path = lease_lock_path(state_dir, name)
        self._join = join
        self._state_dir = state_dir
        self._producer = producer
        self._lock: FileLock | None = None
        self._ownership: Ownership | None = None
        self._is_waiting = False
        self.is_waiting = False

    def __exit__(self, *_: object) -> None:
        """Leaves the group and frees the lock."""
        if self._ownership is not None:
            self._ownership.__exit__()
        if self._lock is not None:
            self._lock.release()
        self._ownership = self._lock = None

    @property
    def process(self) -> str:
        """This process, as other processes and the table ``leases`` name it."""
        return process_name(self.host)

    @property
    def machine(self) -> str:
        """This machine and its lock file; a process with the same ones had the same lock."""
        boot = BOOT_ID.read_text().strip() if BOOT_ID.exists() else hex(uuid.getnode())
        return f"{boot} {self._lock.identity}" if self._lock else ""

    @property
    def instance(self) -> str:
        """The static id of this process in the lease's group."""
        return instance_id(self.host, self._state_dir, self.machine)

    @property
    def owner(self) -> str:
        """The process that holds the lease; empty if it is not known."""
        if self._ownership is not None:
            return self._ownership.owner.partition(" ")[2]  # behind the claim's id
        return str(find_owner(self._lock_path) or "")

    @property
    def is_joining(self) -> bool:
        """Whether the group has not named its owner yet."""
        ownership = self._ownership
        return ownership is not None and ownership.state == "joining"

    @property
    def is_owner(self) -> bool:
        """Whether this process holds the lease, as far as the last `look` has asked for it."""
        ownership = self._ownership
        if ownership is None or ownership.state != "owner":
            return self._join is None and self._lock is not None
        self._note_named(ownership)
        return True

    def look(self, patience_seconds: float = 0.0) -> ClaimStep:
        """Takes the next step that is possible, and says how far the claim is.

        Args:
            patience_seconds: How long to try for the lock, which a look of another process holds
                for an instant. A claim that is looked at again needs none.

        Raises:
            ClusterError: The group cannot be joined.
            StateError: The lock file cannot be written.
        """
        if self._lock is None:
            self._lock = take_lock(self._lock_path, patience_seconds)
        if self._lock is None:
            return "waiting"
        if self._join is None:
            return "owner"
        if self._ownership is None:
            text = f"{self.id} {self.process}, since {self.since:%Y-%m-%d %H:%M:%S} UTC"
            self._ownership = self._join(self._member(text))
        state = self._ownership.state
        if state == "lost":
            raise self._failure(self._ownership.reason)
        if state == "owner":
            self._note_named(self._ownership)
        return state

    def _member(self, text: str = "") -> Member:
        return Member(self.instance, text, self._producer, self._is_quick)

    @property
    def silence(self) -> float:
        """After how many seconds without an answer the owner that this process is would stop."""
        return self._member().times.silence

    def await_step(self, *, standby: bool) -> ClaimStep:
        """Looks as `look` does, for a process that waits only if it stands by.

        Raises:
            LeaseError: Another process holds the lease, and this one does not stand by.
        """
        progress = self.look(0.0 if standby else PROBE_SECONDS)
        if progress == "waiting":
            if not standby:
                raise already_running(self.name, self.owner)
            if not self._is_waiting:
                log.bind(self.name.flow).info("lease_awaited", text=f"held by {self.owner}")
        self._is_waiting = progress == "waiting"
        if progress != "joining":  # which is also what a member is whose cluster went silent
            self.is_waiting = self._is_waiting
        return progress

    def _note_named(self, ownership: Ownership) -> None:
        if not self.named_at:
            if ownership.generation > 1:  # else nobody was there before, and the broker was slow
                self.joined_in = ownership.join_seconds
            self.seen = ownership.seen.partition(" ")[0]
            self.named_at = time.monotonic()

    def _failure(self, reason: str) -> ClusterError:
        thrown = reason.partition(":")[0]  # the class of Java's exception, else a sentence
        if thrown.endswith("AuthorizationException"):
            return ClusterError(str(self._error("GROUP_AUTHORIZATION_FAILED", reason)))
        code = next((code for found, code in REFUSED if found in reason), "_TIMED_OUT")
        step = ANSWER_STEP if code == "_TIMED_OUT" else None
        return NoLeaseAnswerError(str(self._error(code, reason, step)))

    def _error(self, code: str, reason: str, step: str | None = None) -> CallError:
        joining = JOIN_GROUP.of(self.name.group)
        call = replace(joining, text=f"{joining} for flow {self.name}")
        failure = ClientFailure(code, reason)
        return call_error(self.name.flow.target, self._target, call, failure, step)

    def silent(self) -> NoLeaseAnswerError | None:
        """Returns the error of a claim whose target gave no answer at all for too long, or None."""
        if not self._target:
            return None
        silence = reach_of(self._target).given_up(bound_s(self._target))
        if silence is None:
            return None
        return NoLeaseAnswerError(str(self._error(silence.code, silence.text)))

    def late(self, seconds: float) -> NoLeaseAnswerError:
        """Returns the error of a claim to which the group has not answered for *seconds*."""
        reason = f"the group named no owner within {seconds:g} s"
        return NoLeaseAnswerError(str(self._error("_TIMED_OUT", reason, ANSWER_STEP)))

    def loss(self) -> str:
        """Returns why the lease, which this process held, is lost; empty while it is held."""
        if self._ownership is None or self._ownership.state == "owner":
            return ""
        return self._ownership.reason or "the group has another owner"


def process_name(host: str = "") -> str:
    """Returns how the tables name this process; on *host* if that is its machine's other name."""
    return f"{host or socket.gethostname()}, process {os.getpid()}"


def leave(claims: Sequence[Claim]) -> None:
    """Ends *claims* at the same time: each asks its cluster, which may be silent for seconds."""
    if claims:
        with ThreadPoolExecutor(len(claims), "leave") as pool:
            list(pool.map(Claim.__exit__, claims))  # raises what one of them has raised


def join_from(jvm: JVMView, properties: Mapping[str, str], name: LeaseName) -> Join | None:
    """Returns how a process joins the group of *name* from *jvm*; None if the jar is not there.

    Args:
        jvm: The driver's JVM.
        properties: Of consumers on the flow's target.
        name: Of the lease.
    """
    if not has_our_classes(jvm):
        return None
    client_id = "|".join(filter(None, (properties.get("client.id"), "replication-lease")))
    settings = {**with_defaults("consumer", properties), "client.id": client_id}
    return lambda member: Ownership(jvm, settings, name.group, member)


def instance_id(host: str, state_dir: str, machine: str) -> str:
    """Returns the static member id of the processes on *host* that share a lock file.

    A restart has the same one. A process with another lock file, in a temporary folder of its own
    or on a machine of the same name, has another one: it would displace a healthy owner.
    """
    return re.sub(r"[^A-Za-z0-9._-]", "-", f"{host}-{_digest(state_dir, machine)}")


def lease_lock_path(state_dir: str, name: LeaseName) -> Path:
    """Returns *name*'s lock file; in this user's folder on the machine for a remote *state_dir*.

    That lies where systemd keeps a service's state, if it says so, else among temporary files.
    """
    folder = local_path(state_dir)
    if folder is not None:
        return folder / "_locks" / f"{name.slug}.lock"
    kept = os.environ.get("STATE_DIRECTORY", "").partition(":")[0] or tempfile.gettempdir()
    return Path(kept, f"replication-locks-{os.getuid()}", f"{_digest(state_dir)} {name.slug}.lock")


def _digest(state_dir: str, machine: str = "") -> str:
    text = f"{state_dir.rstrip('/')} {machine}".rstrip()
    return hashlib.sha256(text.encode()).hexdigest()[:12]
