"""Requests of operators to the process that runs a flow: small files under the state directory.

A file is one request, and is never altered. Its name says the kind, the job, who is meant, and
when it was made; its JSON who asked, why, and what else the kind needs. It is removed by whom it
is meant for, once it is used or of no use any more, or by its requester.
"""

import getpass
import json
import math
import os
import re
import socket
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from py4j.protocol import Py4JError

from replication.config.state_access import StateAccess
from replication.errors import StateError, first_line, printable
from replication.figures.document import text_of
from replication.foreign_json import read_json
from replication.log import Log
from replication.log_events import Event
from replication.model import Flow, Job, NewEvent, Reaction
from replication.state.change_files import ChangeFiles
from replication.state.open_files import open_files
from replication.state.open_storage import storage_for
from replication.state.paths import job_name
from replication.state.request_files import RequestFiles

log = Log(__name__)

RequestKind = Literal["stop", "accept", "write", "move", "letters"]

ANYONE: Final = "anyone"
"""The addressee of a request to whichever process runs the job."""

JUST_NOW_SECONDS: Final = 2.0
"""As old as a listing may be that counts as one of now."""

_DIGITS: Final = 20
"""Of the time in the name of a file."""

_NAME: Final = re.compile(r"[a-z]+-.+@(?P<addressee>\w+)@\w+", re.ASCII | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Request:
    """What an operator asks for.

    Args:
        body: What the kind needs besides.
        by: The user and the host it comes from; empty if the file does not say.
        reason: The operator's words; may be empty.
        path: The file; empty for a new request.
    """

    body: Mapping[str, Any] = field(default_factory=dict)
    by: str = ""
    reason: str = ""
    path: str = ""

    @property
    def origin(self) -> str:
        """Who asked, and why, for a log; empty if the file does not say."""
        return ": ".join(part for part in (self.by, self.reason) if part)

    def event(self, what: str, reaction: Reaction, **details: str | int) -> NewEvent:
        """Returns the event that says that *what* was requested: by whom, when and why."""
        number = self.path.rpartition("@")[2][:_DIGITS]
        at = text_of(int(number) / 1e9) if number.isdecimal() else "at an unknown time"
        text = f"{what}, requested {at} by {self.origin or 'nobody who is known'}"
        return NewEvent("requested", text, reaction, details)

    def text(self) -> str:
        """Returns the content of the file."""
        return json.dumps({"by": self.by, "reason": self.reason, **self.body})


NEW: Final = Request()
"""A request that no file says anything about yet."""


def request(body: Mapping[str, Any] | None = None, reason: str = "") -> Request:
    """Makes a new request of the user who runs this process."""
    return Request(body or {}, f"{_user()}@{socket.gethostname()}", reason)


def prefix(state_dir: str, kind: RequestKind) -> str:
    """Returns how the paths of all requests of *kind* begin."""
    return f"{state_dir.rstrip('/')}/_control/{kind}-"


def prefix_of(state_dir: str, kind: RequestKind, flow: Flow, job: Job = "mirror") -> str:
    """Returns how paths of *kind*'s requests begin to the process that runs *job* of *flow*."""
    return f"{prefix(state_dir, kind)}{job_name(flow, job)}@"


def new_path(
    state_dir: str, kind: RequestKind, flow: Flow, job: Job = "mirror", addressee: str = ANYONE
) -> str:
    """Makes the path of a new request, unlike any other; those to one addressee sort by time.

    Args:
        state_dir: The state directory.
        kind: The kind.
        flow: The flow.
        job: The job.
        addressee: The address of the process that is meant; by default the one that runs the job.
    """
    number = f"{time.time_ns():0{_DIGITS}d}{uuid.uuid4().hex}"
    return f"{prefix_of(state_dir, kind, flow, job)}{addressee}@{number}"


def addressee_of(path: str) -> str | None:
    """Returns the address in the path of a request; None if the file is none."""
    found = _NAME.fullmatch(path.rpartition("/")[2])
    return found["addressee"] if found else None


def parse_request(path: str, text: str) -> Request:
    """Returns the request in the *text* of the file *path*.

    Raises:
        ValueError: There is none; the error says what is wrong.
    """
    body = read_json(text)
    if not isinstance(body, dict):
        raise ValueError("no JSON object")  # noqa: TRY004 - the text is wrong, not the program
    by, reason = body.pop("by", ""), body.pop("reason", "")
    if not isinstance(by, str) or not isinstance(reason, str):
        raise ValueError("by and reason must be strings")  # noqa: TRY004 - as above
    return Request(body, by, reason, path)


class RequestChannel:
    """The requests under one state directory, as the process sees them that they are meant for.

    What is wrong with a file or with the folder is logged once.

    Args:
        files: Where requests are.
        state_dir: The state directory.
    """

    def __init__(self, files: RequestFiles, state_dir: str) -> None:
        self._files = files
        self.state_dir = state_dir
        self._said: set[str] = set()
        self._told: set[str] = set()
        self._changes: dict[Flow, ChangeFiles] = {}
        self._listed_at = -math.inf

    def paths(self, kind: RequestKind) -> list[str]:
        """Lists all files named like requests of *kind*, oldest first for each addressee.

        The same listing tells the flows of this process what operators have changed.

        Raises:
            OSError, Py4JError: The folder cannot be listed.
        """
        listed = sorted(self._files.find(f"{self.state_dir.rstrip('/')}/_control/"))
        self._listed_at = time.monotonic()
        for changes in list(self._changes.values()):
            changes.take(listed)
            self._say_unread(changes)
        of_kind = prefix(self.state_dir, kind)
        return [path for path in listed if path.startswith(of_kind)]

    def changes_of(self, flow: Flow) -> ChangeFiles:
        """Returns the changes of *flow*, as far as they were read; `paths` reads on."""
        if flow not in self._changes:  # each thread of the flow asks it, often
            new = ChangeFiles(self._files, self.state_dir, flow)
            return self._changes.setdefault(flow, new)
        return self._changes[flow]

    def read_changes(self, flow: Flow) -> None:
        """Reads what operators have changed of *flow*, unless all of it was read just now.

        Raises:
            StateError: It cannot be listed: nobody knows then what is paused.
        """
        changes = self.changes_of(flow)
        if time.monotonic() - self._listed_at < JUST_NOW_SECONDS and changes.is_read:
            return
        try:
            self.paths("stop")
            self.paths("stop")  # has what was collected during the first listing
        except (OSError, Py4JError) as error:
            text = (
                f"cannot list what was changed of {flow} in {self.state_dir}: {first_line(error)}"
            )
            raise StateError(text) from error
        for each in self._changes.values():
            each.is_read = True

    def _say_unread(self, changes: ChangeFiles) -> None:
        for path, unread in changes.unread.items():
            self.say("change_unreadable", flow=changes.flow, path=path, text=unread.text)

    def find(self, kind: RequestKind, flow: Flow) -> list[Request]:
        """Returns the requests of *kind* to *flow*, oldest first; anything else is passed over."""
        try:
            paths = self._files.find(prefix_of(self.state_dir, kind, flow))
        except (OSError, Py4JError) as error:
            self.say("requests_unreadable", kind=kind, flow=flow, text=first_line(error))
            return []
        found = map(self.read, sorted(paths))
        return [request for request in found if request is not None]

    def read(self, path: str, *, may_be_empty: bool = False) -> Request | None:
        """Reads the request in a file, None if there is none."""
        try:
            text = self._files.read(path)
            return None if may_be_empty and not text else parse_request(path, text)
        except (ValueError, OSError, Py4JError) as error:
            self.invalid(path, error)
            return None

    def invalid(self, path: str, error: Exception) -> None:
        """Logs that the file *path* is passed over, and why."""
        text = f"{first_line(error)}; the file is passed over. Remove it, and ask again"
        self.say("request_invalid", path=path, text=text)

    def remove(self, path: str) -> None:
        """Removes a request, if it is there."""
        try:
            self._files.delete(path)
        except (OSError, Py4JError) as error:
            self.say("request_left", path=path, text=f"{first_line(error)}; remove it")

    def answer(self, path: str, exit_code: int) -> None:
        """Removes a request and tells its requester *exit_code*, which needs no space on a disk."""
        try:
            self._files.rename(path, f"{answer_prefix(path)}{exit_code}")
        except (OSError, Py4JError) as error:
            text = f"its requester is not told of exit code {exit_code}: {first_line(error)}"
            self.say("request_left", path=path, text=text)
            self.remove(path)

    def is_news(self, path: str) -> bool:
        """Returns whether nobody has asked this about *path* before."""
        is_new = path not in self._told
        self._told.add(path)
        return is_new

    def say(self, event: Event, *, flow: Flow | None = None, **fields: object) -> None:
        """Logs a warning, unless it was the same before: requests are looked for every second."""
        if (warning := f"{event} {flow} {fields}") not in self._said:
            self._said.add(warning)
            log.bind(flow).warning(event, **fields)


@contextmanager
def open_channel(access: StateAccess) -> Iterator[RequestChannel]:
    """Yields the requests under a state directory for the block, in a process that has no Spark.

    Raises:
        SetupError: Only Hadoop's client reaches the state directory, and Java does not start.
    """
    with open_files(storage_for(access)) as files:
        yield RequestChannel(files, access.state_dir)


def answer_prefix(path: str) -> str:
    """Returns how the path of the answer to the request *path* begins."""
    folder, _, name = path.rpartition("/")
    return f"{folder}/ended-{name.partition('-')[2]}@"


def _user() -> str:
    try:
        return printable(getpass.getuser())  # a variable of the shell may say it
    except (KeyError, OSError):  # a container may run under an id that has no name
        return str(os.getuid())
