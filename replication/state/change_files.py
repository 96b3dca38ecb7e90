"""Changes of running flows as objects under ``_control/``, one for each, and never altered.

``change-<flow>@<number>-<id>`` has one change. The owner of a flow that has many collects them in a
``base-<flow>@<number>-<id>``, and deletes them then: a reader takes all changes of both kinds, so
that it does not matter which of them it meets. ``applied-<flow>@<number>-<id>`` says which changes
a running process has in force.
"""

import json
import time
import uuid
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from threading import RLock
from typing import Final

from py4j.protocol import Py4JError

from replication.config.changes import (
    HIGHEST,
    NO_CHANGES,
    Change,
    Overrides,
    fold,
    id_in,
    parse_change,
    parse_changes,
    text_of_changes,
)
from replication.config.state_access import StateAccess
from replication.errors import StateError, first_line
from replication.foreign_json import read_json, to_json, whole
from replication.model import Flow
from replication.state.files import RequestFiles, open_files
from replication.state.storage import storage_for

MOST_LOOSE: Final = 200
"""Changes that are not in a base yet. From here on the owner collects them."""

MOST_IN_BASE: Final = 5000
"""Changes in one base, which then stays well below the longest object."""

MOST_APPLIED: Final = 1000
"""Of the newest changes in force, whose names a process publishes."""

_RETRY_SECONDS: Final = 0.5

SAID_SECONDS: Final = 60.0
"""How long an object may be unreadable until that is an event, and is looked at less often."""


@dataclass(frozen=True, slots=True)
class Applied:
    """What a process says of the changes that it has in force.

    Args:
        number: The highest number of them.
        names: The newest of them, by their names.
        by: Where the process runs.
        at: When.
        generation: The flow's newest generation then.
    """

    number: int
    names: frozenset[str]
    by: str = ""
    at: str = ""
    generation: int = 0


@dataclass(slots=True)
class Unread:
    """An object that counts as absent.

    Args:
        text: Why.
        since: When that was first seen, by the process's own clock.
        retry_at: When it is looked at again.
    """

    text: str
    since: float
    retry_at: float


@dataclass(slots=True)
class ChangeFiles:
    """The changes of one flow, as one process reads them. What was read once is not read again.

    Args:
        files: Where they are.
        state_dir: The state directory.
        flow: The flow.

    Threads may share it.

    Attributes:
        steering: What the changes come to that were read so far.
        is_read: Whether all that was there at a time was read.
        lost: The ids of changes that two listings in a row had no object of.
    """

    files: RequestFiles
    state_dir: str
    flow: Flow
    steering: Overrides = NO_CHANGES
    is_read: bool = False
    lost: frozenset[str] = frozenset()
    _missing: frozenset[str] = frozenset()
    _unread: dict[str, Unread] = field(default_factory=dict)
    _lock: RLock = field(default_factory=RLock)
    _known: dict[str, tuple[Change, ...]] = field(default_factory=dict)
    _of_others: set[str] = field(default_factory=set)

    @property
    def unread(self) -> dict[str, Unread]:
        """The objects that count as absent, by their paths."""
        with self._lock:
            return dict(self._unread)

    def read(self) -> Overrides:
        """Lists the objects until all of them are read, and returns what they come to.

        Raises:
            StateError: The folder cannot be listed.
        """
        try:
            self.take(self.files.find(self._folder))
            # what was collected during the first listing is in a base that the second one has
            steering = self.take(self.files.find(self._folder))
        except (OSError, Py4JError) as error:
            text = f"cannot list the changes of {self.flow} in {self._folder}: {first_line(error)}"
            raise StateError(text) from error
        self.is_read = True
        return steering

    def take(self, paths: Collection[str]) -> Overrides:
        """Reads those objects among *paths*, a listing, that are new; returns what all come to.

        What was read stays: an object is deleted only when a base has its change.
        """
        with self._lock:
            # a version before took the plain name, which flows may share
            slugs = {self.flow.slug, self.flow.plain_slug}
            ours = tuple(self._prefix(kind, slug) for kind in ("change", "base") for slug in slugs)
            listed = [path for path in paths if path.startswith(ours)]
            self._unread = {path: self._unread[path] for path in listed if path in self._unread}
            new = [path for path in listed if path not in self._known]
            found = {path: changes for path in new if (changes := self._read(path)) is not None}
            if found:
                self._known |= found
                self.steering = fold(change for each in self._known.values() for change in each)
            there = {each.id for path in listed for each in self._known.get(path, ())}
            missing = frozenset(each.id for each in self.steering.changes if each.id not in there)
            # one listing may have passed the place of a base before it was written
            self.lost, self._missing = missing & self._missing, missing
            return self.steering

    def _read(self, path: str) -> tuple[Change, ...] | None:
        """Returns the changes in the object at *path*; None if it counts as absent."""
        before, now = self._unread.get(path), time.monotonic()
        if before is not None and now < before.retry_at:
            return None
        try:
            changes = self._changes(path)
        except (ValueError, OSError, Py4JError) as error:
            since = before.since if before else now
            pause = _RETRY_SECONDS if now - since < SAID_SECONDS else SAID_SECONDS
            self._unread[path] = Unread(first_line(error), since, now + pause)
            return None
        self._unread.pop(path, None)
        return changes

    def _changes(self, path: str) -> tuple[Change, ...] | None:
        """Returns the changes in the object at *path*; None if it is gone.

        Raises:
            ValueError, OSError, Py4JError: There are none, or they cannot be read.
        """
        if not (text := self.files.read(path)):
            if self.files.exists(path):
                raise ValueError("it is empty")
            return None  # it was collected since it was listed
        is_base = path.startswith(f"{self._folder}base-")
        changes = parse_changes(text) if is_base else (parse_change(text, _name(path)),)
        own = tuple(change for change in changes if change.flow == self.flow)
        if len(own) < len(changes):
            self._of_others.add(path)
        return own

    def write(self, change: Change) -> Change:
        """Writes *change* as the newest one; returns it with its number and id.

        Raises:
            StateError: It cannot be written, or others cannot be listed.
        """
        number = min(self.read().number + 1, HIGHEST)
        try:
            new = replace(change, number=number, id=uuid.uuid4().hex)
            path = f"{self._prefix('change')}{new.name}"
            self.files.create(path, json.dumps(to_json(new)))
        except (OSError, Py4JError) as error:
            text = f"cannot write a change of {self.flow} to {self.state_dir}: {first_line(error)}"
            raise StateError(text) from error
        return new

    def others_of(self, change: Change) -> list[Change]:
        """Returns the changes that were made at the same time as *change*, which was just written.

        Raises:
            StateError: They cannot be listed.
        """
        known = self.read().changes
        return [each for each in known if each.number >= change.number and each.id != change.id]

    def collect(self, least: int = MOST_LOOSE) -> int:
        """Puts the changes in a base that are objects of their own, from *least* of them on.

        Only what is in a base of this process's own is deleted, and no base with a higher name:
        then two processes that do this at once delete nothing that the other relies on. What has
        a change of another flow stays.

        Returns:
            How many objects it has deleted.

        Raises:
            StateError, OSError, Py4JError: They cannot be listed, written or deleted.
        """
        self.read()
        ours = self._known.keys() - self._of_others
        paths = [path for path in self.files.find(self._prefix("change")) if path in ours]
        if len(paths) < least:
            return 0
        bases = [path for path in self.files.find(self._prefix("base")) if path in ours]
        paths += [path for path in bases if len(self._known[path]) < MOST_IN_BASE]
        changes = sorted(
            {change for path in paths for change in self._known[path]}, key=lambda each: each.name
        )
        for start in range(0, len(changes), MOST_IN_BASE):
            self._write_base(changes[start : start + MOST_IN_BASE])
        return self._delete(paths)

    def restore(self) -> int:
        """Writes what is *lost* again, so that a restart knows it; returns how many changes.

        Raises:
            OSError, Py4JError: It cannot be written.
        """
        with self._lock:
            changes = [each for each in self.steering.changes if each.id in self.lost]
            for start in range(0, len(changes), MOST_IN_BASE):
                self._write_base(changes[start : start + MOST_IN_BASE])
            self.lost = self._missing = frozenset()
        return len(changes)

    def _write_base(self, changes: Sequence[Change]) -> None:
        path = f"{self._prefix('base')}{changes[-1].number:010d}-{uuid.uuid4().hex}"
        self.files.create(path, text_of_changes(changes))
        self._known[path] = tuple(changes)

    def _delete(self, paths: Iterable[str]) -> int:
        """Deletes those of *paths* whose changes are in bases of higher names."""
        bases = sorted(self.files.find(self._prefix("base")))
        kept = {path: {each.id for each in self._known.get(path, ())} for path in bases}
        everything, count = set[str]().union(*kept.values()), 0
        for path in paths:
            above = everything
            if path in kept:
                above = set[str]().union(*(ids for base, ids in kept.items() if base > path))
            if {each.id for each in self._known[path]} <= above:
                self.files.delete(path)
                count += 1
        return count

    def publish(self, applied: Applied) -> None:
        """Says what is *applied*; what was said before is deleted.

        Raises:
            OSError, Py4JError: It cannot be written.
        """
        before = self.files.find(self._prefix("applied"))
        content = {
            "names": sorted(applied.names)[-MOST_APPLIED:],
            "by": applied.by,
            "at": applied.at,
            "generation": applied.generation,
        }
        path = f"{self._prefix('applied')}{applied.number:010d}-{uuid.uuid4().hex}"
        self.files.create(path, json.dumps(content))
        for each in before:
            self.files.delete(each)

    def applied(self) -> Applied | None:
        """Returns what a process has said last that it has in force; None if none has.

        Raises:
            StateError: It cannot be read.
        """
        try:
            paths = sorted(self.files.find(self._prefix("applied")))
            parsed = [_parse_applied(path, self.files.read(path)) for path in paths]
        except (OSError, ValueError, Py4JError) as error:
            raise StateError(f"cannot read what is in force: {first_line(error)}") from error
        found = [each for each in parsed if each is not None]
        names = frozenset(name for each in found for name in each.names)
        return replace(found[-1], names=names) if found else None

    @property
    def _folder(self) -> str:
        return f"{self.state_dir.rstrip('/')}/_control/"

    def _prefix(self, kind: str, slug: str = "") -> str:
        return f"{self._folder}{kind}-{slug or self.flow.slug}@"


@contextmanager
def open_changes(access: StateAccess, flows: Iterable[Flow]) -> Iterator[dict[Flow, ChangeFiles]]:
    """Yields the changes of each of *flows*, for a process that has no Spark; none is read yet.

    Raises:
        SetupError: Only Hadoop's client reaches the state directory, and Java does not start.
    """
    with open_files(storage_for(access)) as files:
        yield {flow: ChangeFiles(files, access.state_dir, flow) for flow in flows}


def _name(path: str) -> str:
    return path.rpartition("@")[2]


def _parse_applied(path: str, text: str) -> Applied | None:
    """Returns what an object says is in force; None if it says nothing, or not yet."""
    number = _name(path).partition("-")[0]
    try:
        content = read_json(text)
        names = frozenset(name for name in content["names"] if id_in(name))
        by, at, generation = content["by"], content["at"], content["generation"]
        return Applied(int(number), names, str(by), str(at), whole(generation))
    except (ValueError, KeyError, TypeError):
        return None
