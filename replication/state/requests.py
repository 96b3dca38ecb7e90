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
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Literal, TypeVar, cast

from py4j.protocol import Py4JError

from replication.config.state_access import StateAccess
from replication.errors import NoAnswerError, StateError, first_line, printable
from replication.figures.observation import text_of
from replication.foreign_json import read_json
from replication.log import Log
from replication.log_events import Event
from replication.model import EventDetails, Flow, Job, NewEvent, Position, Reaction, TopicPartition
from replication.offsets.dead_letter import DeadLetterId
from replication.offsets.guard import Accepted, StartOffset
from replication.offsets.moved import Moving
from replication.state.change_files import ChangeFiles
from replication.state.files import LocalFiles, RequestFiles, open_files
from replication.state.folder import check_begun, job_name, local_path
from replication.state.locks import find_job_owner
from replication.state.storage import storage_for

if TYPE_CHECKING:
    from typing_extensions import Unpack  # of typing since Python 3.11

log = Log(__name__)

RequestKind = Literal["stop", "catchup", "accept", "write", "move", "letters", "retry"]

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

    def event(self, what: str, reaction: Reaction, **details: "Unpack[EventDetails]") -> NewEvent:
        """Returns the event that says that *what* was requested: by whom, when and why."""
        number = self.path.rpartition("@")[2][:_DIGITS]
        at = text_of(int(number) / 1e9) if number.isdecimal() else "at an unknown time"
        text = f"{what}, requested {at} by {self.origin or 'nobody who is known'}"
        return NewEvent("requested", text, reaction, cast("Mapping[str, str | int]", details))

    def text(self) -> str:
        return json.dumps({"by": self.by, "reason": self.reason, **self.body})


NEW: Final = Request()
"""A request that no file says anything about yet."""


def request(body: Mapping[str, Any] | None = None, reason: str = "") -> Request:
    """Makes a new request of the user who runs this process."""
    try:
        user = printable(getpass.getuser())  # a variable of the shell may say it
    except (KeyError, OSError):  # a container may run under an id that has no name
        user = str(os.getuid())
    return Request(body or {}, f"{user}@{socket.gethostname()}", reason)


def prefix(state_dir: str, kind: RequestKind) -> str:
    """Returns how the paths of all requests of *kind* begin."""
    return f"{state_dir.rstrip('/')}/_control/{kind}-"


def prefix_of(state_dir: str, kind: RequestKind, flow: Flow, job: Job = "mirror") -> str:
    """Returns how paths of *kind*'s requests begin to the process that runs *job* of *flow*."""
    return f"{prefix(state_dir, kind)}{job_name(flow, job)}@"


def new_path(
    state_dir: str, kind: RequestKind, flow: Flow, job: Job = "mirror", addressee: str = ANYONE
) -> str:
    """Makes the path of a new request, unlike any other; those to one addressee sort by time."""
    number = f"{time.time_ns():0{_DIGITS}d}{uuid.uuid4().hex}"
    return f"{prefix_of(state_dir, kind, flow, job)}{addressee}@{number}"


def addressee_of(path: str) -> str | None:
    """Returns the address in the path of a request; None if the file is none."""
    found = _NAME.fullmatch(path.rpartition("/")[2])
    return found["addressee"] if found else None


def parse_request(path: str, text: str) -> Request:
    """Returns the request in the *text* of the file *path*."""
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
    """

    def __init__(self, files: RequestFiles, state_dir: str) -> None:
        self._files = files
        self.state_dir = state_dir
        self._said: set[str] = set()
        self._told: set[str] = set()
        self._changes: dict[Flow, ChangeFiles] = {}
        self._listed: Sequence[str] = ()
        self._listed_at = -math.inf

    def paths(self, kind: RequestKind) -> list[str]:
        """Lists all files named like requests of *kind*, oldest first for each addressee.

        The same listing tells the flows of this process what operators have changed.

        Raises:
            OSError, Py4JError: The folder cannot be listed.
        """
        listed = sorted(self._files.find(f"{self.state_dir.rstrip('/')}/_control/"))
        self._listed, self._listed_at = listed, time.monotonic()
        for changes in list(self._changes.values()):
            changes.take(listed)
            for path, unread in changes.unread.items():
                self.say("change_unreadable", flow=changes.flow, path=path, text=unread.text)
        return self.listed(prefix(self.state_dir, kind))

    def listed(self, begin: str) -> list[str]:
        """Returns the paths that begin so, as `paths` has seen them last: that costs no call."""
        return [path for path in self._listed if path.startswith(begin)]

    def is_asked(self, kind: RequestKind, flow: Flow) -> bool:
        """Returns whether the last listing has a request of *kind* to *flow*."""
        return bool(self.listed(prefix_of(self.state_dir, kind, flow)))

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


# Requests to the owner of a flow about its positions and dead letters. The owner reads them when it
# searches positions, and removes each once it is used or of no use.


def is_whole(value: object, bits: int) -> bool:
    """Returns whether *value* is a whole number as Kafka's protocol has them; `True` is none."""
    return type(value) is int and 0 <= value < 1 << bits


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_partition(value: object) -> bool:
    return is_whole(value, 31)


def _is_offset(value: object) -> bool:
    return is_whole(value, 63)


def _is_list_of(is_one: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: isinstance(value, list) and all(map(is_one, value))


_TOPIC: Final = (_is_text, "topic and topic_id must be strings")

Form = Mapping[str, tuple[Callable[[object], bool], str]]
"""The fields of a file in their order: what each may be, and what is said of another value."""

RequestT = TypeVar("RequestT", bound="OwnerRequest")


class OwnerRequest(ABC):
    """What one file asks for, as a value of its kind. `FORM` is how it is both written and read."""

    __slots__ = ()
    KIND: ClassVar[RequestKind]
    FORM: ClassVar[Form]
    request: Request
    """The file that says so, and who asked; `NEW` before there is one."""

    @property
    @abstractmethod
    def event(self) -> NewEvent:
        """The event that tells who has asked for what."""

    @property
    @abstractmethod
    def _values(self) -> tuple[object, ...]:
        """What the file says, in the order of `FORM`."""

    @classmethod
    @abstractmethod
    def _made(cls: type[RequestT], request: Request, values: Sequence[Any]) -> RequestT:
        """The inverse of `_values`."""

    @property
    def body(self) -> dict[str, object]:
        """What the file says of it."""
        return dict(zip(self.FORM, self._values, strict=True))

    @classmethod
    def parse(cls: type[RequestT], request: Request) -> RequestT:  # noqa: PYI019 - Self is of 3.11
        """Returns what *request* asks for.

        Raises:
            ValueError: It asks for nothing of this kind; the error says what is wrong.
        """
        values = [request.body.get(name, ...) for name in cls.FORM]  # null is a value
        for value, (is_one, text) in zip(values, cls.FORM.values(), strict=True):
            if not is_one(value):
                raise ValueError(text)
        return cls._made(request, values)


class OwnerRequests(Generic[RequestT]):
    """The requests of one kind to one flow, on their way from a command to the owner."""

    def __init__(self, channel: RequestChannel, flow: Flow, of: type[RequestT]) -> None:
        self._channel = channel
        self._flow = flow
        self._of = of

    def find(self) -> list[RequestT]:
        """Returns all requests, oldest first. Anything else is passed over, and logged once."""
        found = []
        for each in self._channel.find(self._of.KIND, self._flow):
            try:
                found.append(self._of.parse(each))
            except ValueError as error:  # noqa: PERF203 - the others count
                self._channel.invalid(each.path, error)
        return found

    def events(self, requests: Iterable[RequestT]) -> list[NewEvent]:
        """Returns an event for each of *requests* that this process has not told of yet."""
        return [each.event for each in requests if self._channel.is_news(each.request.path)]

    def remove(self, requests: Iterable[RequestT]) -> None:
        """Removes requests that are used, or of no use any more."""
        for each in requests:
            self._channel.remove(each.request.path)


def ask_owner(
    access: StateAccess, flow: Flow, asked: Iterable[OwnerRequest], reason: str = ""
) -> None:
    """Hands requests to the process that runs *flow*, now or at its next start.

    Args:
        access: The state directory.
        flow: The flow.
        asked: What is asked for, a file each.
        reason: Why, for the log of the process.

    Raises:
        StateError: The state directory cannot be written.
        SetupError: Only Hadoop's client reaches the state directory, and Java does not start.
    """
    with open_files(storage_for(access)) as files:
        for each in asked:
            path = new_path(access.state_dir, each.KIND, flow)
            try:
                files.create(path, request(each.body, reason).text())
            except (OSError, Py4JError) as error:
                text = f"cannot write the request {path}: {first_line(error)}"
                raise StateError(text) from error


LOOK_SECONDS: Final = 2.0
"""Between two polls for requests; on a remote state directory every poll is a billed call."""

_SHOWN: Final = 10
"""Partitions or topics that an event names."""


@dataclass(frozen=True, slots=True)
class AcceptRequest(OwnerRequest):
    """Partitions of *topic* may go on at *start*, if they cannot go on by themselves.

    Args:
        topic: The upstream topic.
        topic_id: Its id when the operator accepted.
        partitions: Their numbers.
        start: Where they go on.
        request: The file that says so, and who asked.
    """

    KIND = "accept"
    FORM: ClassVar[Form] = {
        "topic": _TOPIC,
        "topic_id": _TOPIC,
        "partitions": (_is_list_of(_is_partition), "partitions must be a list of their numbers"),
        "from": (
            lambda value: value in ("earliest", "latest") or _is_offset(value),
            "from must be an offset, earliest or latest",
        ),
    }

    topic: str
    topic_id: str
    partitions: tuple[int, ...]
    start: StartOffset
    request: Request = NEW

    @property
    def _values(self) -> tuple[object, ...]:
        return self.topic, self.topic_id, self.partitions, self.start

    @classmethod
    def _made(cls, request: Request, values: Sequence[Any]) -> "AcceptRequest":
        topic, topic_id, partitions, start = values
        return cls(topic, topic_id, tuple(partitions), start, request)

    @property
    def accepted(self) -> dict[TopicPartition, Accepted]:
        """What is accepted of each partition."""
        value = Accepted(self.start, self.topic_id)
        return {TopicPartition(self.topic, number): value for number in self.partitions}

    @property
    def event(self) -> NewEvent:
        parts = ", ".join(map(str, self.partitions[:_SHOWN]))
        rest = len(self.partitions[_SHOWN:])
        more = f" and {rest} more" if rest else ""
        what = f"accept {self.topic} from {self.start} (partitions {parts}{more})"
        return self.request.event(what, "accept", topic=self.topic)


def pending_acceptances(channel: RequestChannel, flow: Flow) -> dict[TopicPartition, Accepted]:
    """Returns what operators have accepted for *flow*, and no start has used yet."""
    requests = OwnerRequests(channel, flow, AcceptRequest).find()
    return {tp: accepted for each in requests for tp, accepted in each.accepted.items()}


@dataclass(frozen=True, slots=True)
class MoveRequest(OwnerRequest):
    """One partition is to go on elsewhere.

    One file is about one partition, so that it can be removed when that partition has gone on,
    whatever becomes of the others.

    Args:
        partition: Upstream.
        moving: Where, and what the operator saw.
        request: The file that says so, and who asked.
    """

    KIND = "move"
    FORM: ClassVar[Form] = {
        "topic": _TOPIC,
        "partition": (_is_partition, "partition must be its number"),
        "topic_id": _TOPIC,
        "to": (
            lambda value: value == "earliest" or _is_offset(value),
            "to must be an offset or earliest",
        ),
        "seen": (
            lambda value: (
                value is None
                or (isinstance(value, list) and [*map(_is_offset, value)] == [True, True])
            ),
            "seen must be the source offset and the target offset, or null",
        ),
    }

    partition: TopicPartition
    moving: Moving
    request: Request = NEW

    @property
    def _values(self) -> tuple[object, ...]:
        seen = self.moving.seen
        pair = None if seen is None else [seen.upstream, seen.downstream]
        return *self.partition, self.moving.topic_id, self.moving.to, pair

    @classmethod
    def _made(cls, request: Request, values: Sequence[Any]) -> "MoveRequest":
        topic, partition, topic_id, to, pair = values
        seen = None if pair is None else Position(*pair)
        return cls(TopicPartition(topic, partition), Moving(to, seen, topic_id), request)

    @property
    def event(self) -> NewEvent:
        what = f"move {self.partition} to {self.moving.to}"
        return self.request.event(what, "accept", **self.partition._asdict())


def pending_moves(channel: RequestChannel, flow: Flow) -> dict[TopicPartition, MoveRequest]:
    """Returns the moves that wait for their use.

    Of two requests about one partition the newer one counts.
    """
    return {each.partition: each for each in OwnerRequests(channel, flow, MoveRequest).find()}


def withdraw_moves(access: StateAccess, flow: Flow, partition: TopicPartition, to: int) -> int:
    """Takes back what was asked of *partition*, if it waits still; returns how many requests.

    Raises:
        StateError: The state directory cannot be read or written.
        SetupError: Only Hadoop's client reaches the state directory, and Java does not start.
    """
    with open_files(storage_for(access)) as files:
        moves = OwnerRequests(RequestChannel(files, access.state_dir), flow, MoveRequest)
        try:
            files.find(prefix_of(access.state_dir, "move", flow))  # `moves` would only log an error
            asked = [each for each in moves.find() if each.partition == partition]
            mine = [each for each in asked if each.moving.to == to]
            for each in mine:
                files.delete(each.request.path)
        except (OSError, Py4JError) as error:
            text = f"cannot take back a request in {access.state_dir}: {first_line(error)}"
            raise StateError(text) from error
    return len(mine)


@dataclass(frozen=True, slots=True)
class DeadLetterRequest(OwnerRequest):
    """The dead letters *ids* are to be copied again."""

    KIND = "letters"
    FORM: ClassVar[Form] = {"letters": (_is_list_of(lambda _row: True), "letters must be a list")}

    ids: tuple[DeadLetterId, ...]
    request: Request = NEW

    @property
    def _values(self) -> tuple[object, ...]:
        return (self.ids,)

    @classmethod
    def _made(cls, request: Request, values: Sequence[Any]) -> "DeadLetterRequest":
        (letters,) = values
        return cls(tuple(map(_letter, letters)), request)

    @property
    def event(self) -> NewEvent:
        topics = sorted({one.topic for one in self.ids})
        what = f"copy {len(self.ids)} dead letters of {', '.join(topics[:_SHOWN])} again"
        return self.request.event(what, "retry")


def request_letters(
    access: StateAccess, flow: Flow, ids: Collection[DeadLetterId], reason: str = ""
) -> None:
    """Asks for letters to be copied again, as `ask_owner` does."""
    ask_owner(access, flow, [DeadLetterRequest(tuple(sorted(ids)))], reason)


@dataclass(frozen=True, slots=True)
class RetryRequest(OwnerRequest):
    """What is set aside of *topics*, or of all without any, is to be tried now."""

    KIND = "retry"
    FORM: ClassVar[Form] = {"topics": (_is_list_of(_is_text), "topics must be a list of names")}

    topics: tuple[str, ...] = ()
    request: Request = NEW

    @property
    def _values(self) -> tuple[object, ...]:
        return (self.topics,)

    @classmethod
    def _made(cls, request: Request, values: Sequence[Any]) -> "RetryRequest":
        (topics,) = values
        return cls(tuple(topics), request)

    @property
    def event(self) -> NewEvent:
        rest = len(self.topics[_SHOWN:])
        names = ", ".join(self.topics[:_SHOWN]) + (f" and {rest} more" if rest else "")
        return self.request.event(f"try {names or 'all that is set aside'} again", "retry")


def request_retry(
    access: StateAccess,
    flow: Flow,
    asked: RetryRequest,
    timeout_seconds: float,
    reason: str,
    idle: "Idle",
) -> bool:
    """Asks the process that runs *flow* to try again, and waits until it has.

    Returns:
        Whether it has; False if no process runs the flow, as *idle* says.

    Raises:
        StateError: It did not in time, or the state directory cannot be written.
        SetupError: Only Hadoop's client reaches the state directory, and Java does not start.
    """
    path = new_path(access.state_dir, asked.KIND, flow)
    with open_files(storage_for(access)) as files:
        text = request(asked.body, reason).text()
        return flow in _ask_owners(files, {flow: path}, timeout_seconds, text, idle)


def _letter(row: object) -> DeadLetterId:
    kinds = [str, str, int, int]
    if not isinstance(row, list) or [type(part) for part in row] != kinds:
        raise ValueError("a letter is a list of topic, topic id, partition and offset")
    return DeadLetterId(*row)


WRITE_LOOK_SECONDS: Final = 0.5
"""Between two looks of the process for requests."""

PATIENCE_SECONDS: Final = 10.0
"""How long a command waits: the process confirms what it writes by two looks at the topics."""

WRITE_POLL_SECONDS: Final = 0.1


class WriteRequests:
    """The requests to one flow that this process runs."""

    def __init__(self, channel: RequestChannel, flow: Flow) -> None:
        self._channel = channel
        self._flow = flow
        self._is_local = local_path(channel.state_dir) is not None
        self._look_at = 0.0

    def find(self) -> list[str]:
        """Returns the paths of the requests; none where the last look was just now."""
        if not self._is_local or time.monotonic() < self._look_at:
            return []
        self._look_at = time.monotonic() + WRITE_LOOK_SECONDS
        return [found.path for found in self._channel.find("write", self._flow)]

    def answer(self, path: str) -> None:
        """Says that the map is written: the answer to a request is that it is gone."""
        self._channel.remove(path)


def await_written(state_dir: str, flow: Flow, patience_seconds: float = PATIENCE_SECONDS) -> str:
    """Asks the process that runs *flow*, if there is one, to write its map, and waits for that.

    The map in its memory is ahead of its table by up to ``state.write.interval.seconds``. On a
    remote state directory nobody asks: each poll for requests would be a billed call.

    Returns:
        Why the table may be older than the map in memory; empty if it is not, or nobody is asked.
    """
    if local_path(state_dir) is None:
        return ""
    files, path = LocalFiles(), new_path(state_dir, "write", flow)
    try:
        owner = find_job_owner(state_dir, flow)
        if owner is None:
            return ""
        files.create(path, request().text())
    except (OSError, StateError) as error:
        return f"the process that runs {flow} cannot be asked to write its offset map: {error}"
    deadline = time.monotonic() + patience_seconds
    while files.exists(path):
        if time.monotonic() >= deadline:
            with suppress(OSError):
                files.delete(path)
            return (
                f"{owner} has not written its offset map within {patience_seconds:g} s: what is "
                "read here may be older, by state.write.interval.seconds or by an outage"
            )
        time.sleep(WRITE_POLL_SECONDS)
    return ""


# spark-submit passes no signal on to Python. ``spark-submit.sh`` therefore names a file in
# ``REPLICATION_STOP_FILE``. ``replication stop`` writes one for each flow under the state
# directory, and only the process that runs the flow may answer it.

STOP_FILE: Final = "REPLICATION_STOP_FILE"
POLL_SECONDS: Final = 1.0
"""Between two polls for requests; on a remote state directory every poll is a billed call."""

ASK_SECONDS: Final = 5.0
"""Between two questions whether anybody is left who could answer a request."""

StopKind = Literal["stop", "catchup"]

STOPS: Final[Mapping[StopKind, str]] = {"stop": "stop", "catchup": "stop when caught up"}
"""What each kind asks for: a stop at once, or once all is copied that was there when it came."""

NOT_CAUGHT_UP: Final = NoAnswerError.exit_code
"""Of a flow that has ended, whoever ended it, before it had caught up as it was to."""

Idle = Callable[[Collection[Flow]], Collection[Flow]]
"""Returns those flows of which it is known that no process runs the job."""


class StopRequests:
    """The requests to one process, in its state directory and in ``REPLICATION_STOP_FILE``.

    Args:
        channel: Where requests are.
        flows: The flows of this process.
        job: What it runs of them.
        may_answer: Whether this process, and no other, runs the job of a flow.
        address: The address of this process in requests to a flow that it runs.
    """

    def __init__(
        self,
        channel: RequestChannel,
        flows: Iterable[Flow],
        job: Job,
        may_answer: Callable[[Flow], bool],
        address: Callable[[Flow], str] = lambda _flow: ANYONE,
    ) -> None:
        self._channel = channel
        self._may_answer = may_answer
        self._address = address
        self._prefixes = {
            kind: {flow: prefix_of(channel.state_dir, kind, flow, job) for flow in flows}
            for kind in STOPS
        }
        self._old: frozenset[str] | None = None
        self._found: dict[StopKind, dict[Flow, dict[str, Request]]] = {kind: {} for kind in STOPS}
        self._answered: set[str] = set()

    def watch(self) -> None:
        """Begins to watch: requests to anyone that are there by now are stale."""
        if self._old is None:
            there = self._listed()
            self._old = frozenset(path for path in there if addressee_of(path) == ANYONE)

    def find(self) -> set[Flow]:
        """Returns the flows that are asked to stop at once."""
        if is_stop_file_there():
            return set(self._prefixes["stop"])
        try:
            self.watch()
            there = self._listed()
        except (OSError, Py4JError) as error:
            self._channel.say("requests_unreadable", kind="stop", text=first_line(error))
            return {flow for flow, found in self._found["stop"].items() if found}
        for path in there:
            if addressee_of(path) is None:
                self._channel.invalid(path, ValueError("not the name of a request to stop"))
        for kind, prefixes in self._prefixes.items():
            for flow, prefix in prefixes.items():
                if self._may_answer(flow):
                    self._look(kind, flow, [path for path in there if path.startswith(prefix)])
        return {flow for flow, found in self._found["stop"].items() if found}

    def catching_up(self, flow: Flow) -> frozenset[str]:
        """Returns who waits that *flow* stops when it has caught up, as `find` saw it last."""
        return frozenset(self._found["catchup"].get(flow, ()))

    def _listed(self) -> list[str]:
        paths = self._channel.paths("stop")
        return [*paths, *self._channel.listed(prefix(self._channel.state_dir, "catchup"))]

    def origin(self, flow: Flow, kind: StopKind = "stop") -> str:
        """Returns who has asked last that *flow* stops, and why; empty if no file says so."""
        origins = [found.origin for found in self._found[kind].get(flow, {}).values()]
        return next(filter(None, reversed(origins)), "")

    def events(self, flow: Flow) -> list[NewEvent]:
        """Returns an event for each request to *flow* that says who asks."""
        return [
            each.event(STOPS[kind], "stop")
            for kind, each in self._of(flow)
            if each.origin and self._channel.is_news(each.path)
        ]

    def answer(self, flow: Flow, exit_code: int = 0, caught_up: Collection[str] = ()) -> None:
        """Answers the requests that `find` has found for *flow*: its job has ended.

        The answer to a request is that it is gone; if the job had failed, or has not caught up as
        it was to, which it has for those in *caught_up*, a file names the code.
        """
        for kind, each in self._of(flow):
            if each.path in self._answered:
                continue
            self._answered.add(each.path)
            is_early = kind == "catchup" and each.path not in caught_up
            if code := exit_code or (NOT_CAUGHT_UP if is_early else 0):
                self._channel.answer(each.path, code)
            else:
                self._channel.remove(each.path)

    def _of(self, flow: Flow) -> list[tuple["StopKind", Request]]:
        return [
            (kind, request)
            for kind, found in self._found.items()
            for request in found.get(flow, {}).values()
        ]

    def _look(self, kind: "StopKind", flow: Flow, paths: Sequence[str]) -> None:
        known = self._found[kind].setdefault(flow, {})
        if kind == "catchup":  # who gives up waiting withdraws it
            for path in known.keys() - {*paths}:
                del known[path]
        for path in paths:
            addressee = addressee_of(path)
            if addressee == ANYONE:
                is_meant = path not in (self._old or ())
            else:
                is_meant = addressee == self._address(flow)
            if is_meant and path not in known:
                # its name says all that a stop needs: on a full disk the file is empty
                known[path] = self._channel.read(path, may_be_empty=True) or Request(path=path)
            elif not is_meant and addressee not in (ANYONE, None):
                self._channel.remove(path)  # it is for an earlier process, which has ended


def is_stop_file_there() -> bool:
    """Returns whether the file that spark-submit.sh has named asks the process to stop."""
    named = os.environ.get(STOP_FILE)
    return bool(named) and Path(str(named)).exists()


class UnansweredError(StateError):
    """Nobody did in time what was asked; the requests *left*, by their paths, are taken back."""

    def __init__(self, text: str, left: Collection[str]) -> None:
        self.left = left
        super().__init__(text)


def request_stop(
    access: StateAccess,
    flows: Collection[Flow],
    timeout_seconds: float,
    job: Job = "mirror",
    reason: str = "",
    idle: Idle = lambda _flows: (),
    kind: StopKind = "stop",
) -> dict[Flow, int]:
    """Asks the process that runs *job* of *flows* to stop, and waits until it has.

    Args:
        access: The state directory.
        flows: The flows.
        timeout_seconds: How long to wait.
        job: The job.
        reason: Why, for the log of the process.
        idle: Is asked where the state directory has no locks.
        kind: When they are to stop.

    Returns:
        The exit code of each flow that was running, 0 for a clean end; the others need no stop.

    Raises:
        StateError: The process did not stop in time, or the state directory cannot be written.
        NoAnswerError: No job ever began with the local state directory.
        SetupError: Only Hadoop's client reaches the state directory, and Java does not start.
    """
    text, state_dir = request(reason=reason).text(), access.state_dir
    is_local = local_path(state_dir) is not None
    known = () if is_local else idle(flows)
    paths = {flow: new_path(state_dir, kind, flow, job) for flow in flows if flow not in known}
    if not paths:
        return {}
    with open_files(storage_for(access)) as files:
        if is_local:
            return _stop_local(files, state_dir, flows, job, timeout_seconds, text, kind)
        codes = _ask_owners(files, paths, timeout_seconds, text, idle)
    # who has gone without an answer had perhaps not caught up
    return dict.fromkeys(paths, NOT_CAUGHT_UP) | codes if kind == "catchup" else codes


def _ask_owners(
    files: RequestFiles, paths: Mapping[Flow, str], timeout_seconds: float, text: str, idle: Idle
) -> dict[Flow, int]:
    """Creates requests, and waits until each is removed, or nobody is left to remove it."""
    gone: dict[Flow, str] = {}

    def end_some(left: Collection[str]) -> None:
        flows = {flow: path for flow, path in paths.items() if path in left}
        for flow in idle(flows):
            if files.exists(paths[flow]):  # else it was answered just now
                gone[flow] = paths[flow]
                files.delete(paths[flow])

    try:
        request_and_wait(files, paths.values(), timeout_seconds, text, end_some)
    except UnansweredError:
        with suppress(Py4JError):  # answers of flows that have ended, while another one goes on
            for path in paths.values():
                _exit_code(files, path)
        raise
    return {flow: _exit_code(files, path) for flow, path in paths.items() if flow not in gone}


def _stop_local(
    files: RequestFiles,
    state_dir: str,
    flows: Collection[Flow],
    job: Job,
    timeout_seconds: float,
    text: str,
    kind: StopKind,
) -> dict[Flow, int]:
    """Requests to the owners of the job locks; waits until each lock is free or has a new owner."""
    check_begun(state_dir)
    owners = {flow: find_job_owner(state_dir, flow, job) for flow in flows}
    requests = {
        flow: new_path(state_dir, kind, flow, job, owner.address)
        for flow, owner in owners.items()
        if owner
    }
    _create(files, requests.values(), text)
    deadline = time.monotonic() + timeout_seconds
    while (
        left := [flow for flow in requests if find_job_owner(state_dir, flow, job) == owners[flow]]
    ) and time.monotonic() <= deadline:
        time.sleep(POLL_SECONDS / 4)
    codes = {flow: _exit_code(files, path) for flow, path in requests.items()}
    for flow, path in requests.items():
        if kind == "catchup" and files.exists(path):  # killed: nobody has said that it had
            codes[flow] = NOT_CAUGHT_UP
        files.delete(path)
    if left:
        names = "; ".join(f"{flow}: {owners[flow]}" for flow in left)
        text = f"still running after {timeout_seconds:g} s: {names}"
        raise UnansweredError(text, [requests[flow] for flow in left])
    return codes


def _exit_code(files: RequestFiles, request: str) -> int:
    """Removes the answer to *request*; returns its exit code, 0 without an answer."""
    prefix, code = answer_prefix(request), 0
    for answer in files.find(prefix):
        text = answer.removeprefix(prefix)
        code = int(text) if text.isdecimal() else code
        files.delete(answer)
    return code


def request_and_wait(
    files: RequestFiles,
    paths: Collection[str],
    timeout_seconds: float,
    text: str = "",
    when_left: Callable[[Collection[str]], None] = lambda _left: None,
) -> None:
    """Creates requests, and waits until the process that runs the flows has removed them.

    Args:
        files: Where they are.
        paths: Of the requests.
        timeout_seconds: How long to wait.
        text: Of each.
        when_left: Is told every few seconds which of them are left, and may remove some.

    Raises:
        StateError: They were not removed in time, or cannot be written.
    """
    _create(files, paths, text)
    deadline = time.monotonic() + timeout_seconds
    ask_at = time.monotonic() + ASK_SECONDS
    try:
        while left := [path for path in paths if files.exists(path)]:
            if time.monotonic() > deadline:
                for path in left:
                    files.delete(path)
                raise UnansweredError(
                    f"no process answered {', '.join(left)} within {timeout_seconds:g} s: either "
                    "none runs these flows, or it needs longer to stop",
                    left,
                )
            if time.monotonic() >= ask_at:
                when_left(left)
                ask_at = time.monotonic() + ASK_SECONDS
            time.sleep(POLL_SECONDS)
    except Py4JError as error:
        raise StateError(f"cannot read stop requests: {first_line(error)}") from error


def _create(files: RequestFiles, paths: Iterable[str], text: str) -> None:
    """Creates requests with *text*, or without on a full disk: their names say what is asked."""
    try:
        for path in paths:
            try:
                files.create(path, text)
            except OSError:  # noqa: PERF203 - each by itself
                files.create(path)
    except (OSError, Py4JError) as error:
        raise StateError(f"cannot write stop requests: {first_line(error)}") from error
