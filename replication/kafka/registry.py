"""A cluster's schema registry, by the calls of Confluent's that a mirror needs.

A call is made once: whoever asks tries again, unless the registry says that it is asked too often:
then nothing is asked until it allows that. Errors say what was tried, where, what the registry said
and what to do, and never a password.
"""

import json
import ssl
import threading
import time
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from email.utils import parsedate_to_datetime
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any, Final, TypeAlias, TypeVar
from urllib.parse import quote, unquote, urlencode, urlsplit

from replication.backoff import Backoff
from replication.config.client_keys import MASK
from replication.config.schema_settings import OWN, TRUSTED, URL, USER, RegistryConfig
from replication.errors import ClusterError, first_line, printable
from replication.foreign_json import read_json, whole
from replication.schemas.values import AVRO, Reference, Schema, Version

TIMEOUT_SECONDS: Final = 10.0
"""Of connecting, and of each wait for bytes."""

AT_ONCE: Final = 8
"""How many requests one registry gets at the same time."""

PATIENCE_SECONDS: Final = 10.0
"""How long a question waits for a registry that is asked too often."""

PAUSES: Final = Backoff(1, 15)
"""Between its requests, where it does not say when the next one is allowed."""

PAGE: Final = 1000
"""How many versions are listed by one request: Confluent's registry gives no more."""

LONGEST_PAUSE: Final = 86_400.0
LONGEST_WAITS: Final = 6
"""For a whole answer, of which parts come."""

LONGEST_ANSWER: Final = 256 << 20
LONGEST_TEXT: Final = 2_000
MOST_ID: Final = 2**31 - 1
TYPE: Final = "application/vnd.schemaregistry.v1+json"

_OK: Final = 200
_REDIRECTS: Final = 300
INVALID_REQUEST: Final = 400
FORBIDDEN: Final = 403
NOT_FOUND: Final = 404
INCOMPATIBLE: Final = 409
INVALID: Final = 422
TOO_MANY: Final = 429
UNAVAILABLE: Final = 503
SERVER_ERROR: Final = 500

_UNSUPPORTED: Final = (INVALID_REQUEST, NOT_FOUND, 405, INVALID, 501)
_PART: Final = 1 << 16
_LEVEL: Final = "compatibilityLevel"
_GARBAGE: Final = "an answer that no registry gives"
_NO_IMPORT: Final = "this registry does not let versions keep their ids"

Json: TypeAlias = Any
Item = TypeVar("Item")
Read = TypeVar("Read")

_STEPS: Final[Mapping[int, str]] = {
    401: "correct {alias}." + USER,
    403: "allow the user of {alias}." + USER + " what it needs: READ on the source's subjects; "
    "READ, WRITE and, for preserve, mode and compatibility on the target's",
    404: "check that {alias}." + URL + " is the address of a registry, and its context",
    409: "change the compatibility level of the subject there, or the schema",
    422: "see what the registry says; its user may lack mode.mutability or IMPORT mode",
    429: "wait: the registry is asked too often",
}


class RegistryError(ClusterError):
    """A schema registry does not answer, or refuses a request.

    Args:
        text: What the operator reads.
        status: Of HTTP; 0 if there was no answer.
        reason: What the registry itself said, or why there was no answer.
        pause: The seconds until it may be asked again, if it is asked too often, and says so.
    """

    code = "registry"

    def __init__(self, text: str, status: int, reason: str, pause: float | None = None) -> None:
        self.pause = pause
        self.status = status
        self.reason = reason
        super().__init__(text)

    @property
    def is_final(self) -> bool:
        """Whether the registry has understood the schema and refuses it."""
        return self.status in (INCOMPATIBLE, INVALID)

    @property
    def is_unsupported(self) -> bool:
        """Whether the registry has no such request."""
        return self.status in _UNSUPPORTED


class Registry:
    """The schema registry of one cluster; its calls raise `RegistryError`.

    Names of subjects are those within the context of the address.

    Args:
        alias: The cluster's.
        config: Where it is, and how to log in.
        timeout: Of each wait, in seconds.
        patience: How many seconds a question waits where the registry is asked too often.
    """

    def __init__(
        self,
        alias: str,
        config: RegistryConfig,
        timeout: float = TIMEOUT_SECONDS,
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        self.alias = alias
        self._config = config
        self._timeout = timeout
        self._patience = patience
        self._first = 0  # of the addresses, the one that answered last
        self._connections: dict[int, tuple[int, HTTPConnection]] = {}  # by thread
        self._pool: ThreadPoolExecutor | None = None
        self._allowed = 0.0  # when it may be asked again
        self._over = threading.Event()

    @property
    def address(self) -> str:
        """Where it is asked first."""
        return self._config.urls[self._first]

    def subjects(self) -> list[str]:
        def read(found: Json) -> list[str]:
            if not isinstance(found, list):
                raise TypeError(found)
            return [self._own(name) for name in found if self._is_own(name)]

        return self._ask("GET", "/subjects", "list its subjects", read)

    def each(self, ask: Callable[[Item], Read], items: Iterable[Item]) -> list[Read]:
        """Asks for each of *items*, some at the same time; returns the answers in their order.

        Raises:
            RegistryError: The first one. If it is final, it is raised once all others are done.
        """
        if self._pool is None:
            self._pool = ThreadPoolExecutor(AT_ONCE, "registry")
        asked: list[Future[Read]] = [self._pool.submit(ask, item) for item in items]
        refused: RegistryError | None = None
        answers = []
        try:
            for one in asked:
                try:
                    answers.append(one.result())
                except RegistryError as error:  # noqa: PERF203 - an answer each
                    refused = refused or error
                    if not error.is_final:
                        raise
        finally:
            for one in asked:
                one.cancel()
        if refused is not None:
            raise refused
        return answers

    def listed(
        self, prefix: str, *, only_latest: bool = False, deleted: bool = False
    ) -> list[Version] | None:
        """Returns the versions of all subjects whose names begin with *prefix*, by few requests.

        Some may be missing, if others change them meanwhile. None: there is no such request.
        """
        query = {"deleted": str(deleted).lower(), "latestOnly": str(only_latest).lower()}
        if prefix:
            query["subjectPrefix"] = prefix
        found = dict[tuple[str, int], Version]()

        def read(page: Json) -> dict[tuple[str, int], Version]:
            return {
                (each["subject"], _number(each["version"])): self._version(each) for each in page
            }

        is_more = True
        while is_more:  # some give less than they are asked for, and some all at once
            path = f"/schemas?{urlencode({**query, 'offset': len(found), 'limit': PAGE})}"
            try:
                page = self._ask("GET", path, "list its schemas", read)
            except RegistryError as error:
                if error.is_unsupported or error.reason == _GARBAGE:
                    return None
                raise
            is_more = len(page) <= PAGE and not page.keys() <= found.keys()
            found |= page
        return [one for (subject, _), one in found.items() if self._is_own(subject)]

    def versions(self, subject: str) -> list[int]:
        """Returns the numbers of a subject's versions; none if there is no such subject."""
        path = f"/subjects/{_quoted(subject)}/versions"
        what = f"list the versions of {subject}"
        return self._ask(
            "GET", path, what, lambda found: [_number(one) for one in found], absent=[]
        )

    def version(self, subject: str, number: int) -> Version:
        """Returns one version of a subject, which exists; it may be a deleted one."""
        path = f"/subjects/{_quoted(subject)}/versions/{number}?deleted=true"
        return self._ask("GET", path, f"read {subject} version {number}", self._version)

    def latest(self, subject: str) -> Version | None:
        """Returns the latest version of a subject; None if there is none."""
        path = f"/subjects/{_quoted(subject)}/versions/latest"
        return self._ask("GET", path, f"read the latest {subject}", self._version, absent=None)

    def schema(self, number: int) -> Schema | None:
        """Returns the schema that has an id; None if none has."""
        path = f"/schemas/ids/{number}"
        what = f"read the schema with id {number}"
        return self._ask("GET", path, what, self._schema, absent=None)

    def uses(self, number: int) -> list[tuple[str, int]]:
        """Returns the subjects and versions whose schema has an id."""
        path = f"/schemas/ids/{number}/versions"

        def read(found: Json) -> list[tuple[str, int]]:
            return [(self._own(each["subject"]), _number(each["version"])) for each in found]

        return self._ask("GET", path, f"list what has the schema id {number}", read, absent=[])

    def ids_of(self, guid: str) -> list[int]:
        """Returns the ids of the schema with a GUID in this context: one, or none."""
        path = f"/schemas/guids/{_quoted(guid)}/ids"

        def read(found: Json) -> list[int]:
            own = [each for each in found if (each["context"] or ".") == self._context]
            return [_number(each["id"]) for each in own]

        return self._ask("GET", path, f"look for the schema {guid}", read, absent=[])

    def lookup(self, subject: str, schema: Schema) -> Version | None:
        """Returns a subject's version with that schema; None if there is none."""
        path = f"/subjects/{_quoted(subject)}"
        what = f"look for a schema in {subject}"

        def read(found: Json) -> Version:
            return Version(subject, _number(found["version"]), _number(found["id"]), schema)

        return self._ask("POST", path, what, read, body=_body(schema), absent=None)

    def register(self, subject: str, schema: Schema) -> Version:
        """Registers a schema under a subject, unless it is there.

        Not every registry says which version that is: 0 then.
        """
        path = f"/subjects/{_quoted(subject)}/versions"
        what = f"register a schema as {subject}"

        def read(found: Json) -> Version:
            return Version(
                subject, _number(found.get("version") or 0), _number(found["id"]), schema
            )

        return self._ask("POST", path, what, read, body=_body(schema))

    def put(self, version: Version) -> None:
        """Registers a version under its own number and id; the subject is in mode IMPORT.

        Some registries know no such mode, and give an id of their own without a word.
        """
        path = f"/subjects/{_quoted(version.subject)}/versions"
        body = {**_body(version.schema), "id": version.id, "version": version.number}
        what = f"register {version}"
        given = self._ask("POST", path, what, lambda found: _number(found["id"]), body=body)
        if given != version.id:
            raise self._error(self._first, what, _OK, f"it has given the id {given}; {_NO_IMPORT}")

    def compatibility(self, subject: str) -> str | None:
        """Returns a subject's own compatibility level; None if it has none of its own."""
        path = f"/config/{_quoted(subject)}"
        what = f"read the compatibility of {subject}"
        return self._ask("GET", path, what, lambda found: str(found[_LEVEL]), absent=None)

    def set_compatibility(self, subject: str, level: str) -> None:
        path = f"/config/{_quoted(subject)}"
        what = f"set the compatibility of {subject} to {level}"
        self._ask("PUT", path, what, bool, body={"compatibility": level})

    def mode(self, subject: str) -> str:
        """Returns the mode in force for a subject, its own or that of the registry."""
        path = f"/mode/{_quoted(subject)}?defaultToGlobal=true"
        what = f"read the mode of {subject}"
        return self._ask("GET", path, what, lambda found: str(found["mode"]), empty=_NO_IMPORT)

    def begin_import(self, subject: str) -> None:
        """Puts a subject into mode IMPORT, in which versions keep their ids.

        By force, since it may have versions already. The caller has compared these.
        """
        path = f"/mode/{_quoted(subject)}?force=true"
        what = f"set the mode of {subject} to IMPORT"
        self._ask("PUT", path, what, bool, body={"mode": "IMPORT"}, empty=_NO_IMPORT)

    def interrupt(self) -> None:
        """Ends what waits for leave to ask, and lets nothing more be asked."""
        self._over.set()

    def close(self) -> None:
        """Closes the connections; the next call opens one."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None
        while self._connections:
            with suppress(KeyError):
                self._connections.popitem()[1][1].close()

    @property
    def _context(self) -> str:
        """What the registry calls the context of the address, ``.A``; the default one is ``.``."""
        before, _, name = urlsplit(self.address).path.rstrip("/").rpartition("/")
        return "." + unquote(name).removeprefix(".") if before.endswith("/contexts") else "."

    def _is_own(self, subject: str) -> bool:
        return not subject.startswith(":.") or subject.split(":", 2)[1] == self._context

    def _own(self, subject: str) -> str:
        """Returns the name of a subject within the context of the address, ``:.A:name`` there."""
        return subject.split(":", 2)[2] if subject.startswith(":.") else subject

    def _version(self, found: Json) -> Version:
        own = self._own(found["subject"])
        return Version(own, _number(found["version"]), _number(found["id"]), self._schema(found))

    def _schema(self, found: Json) -> Schema:
        references = tuple(
            Reference(each["name"], self._own(each["subject"]), _number(each["version"]))
            for each in found.get("references") or ()
        )
        contract = {key: found[key] for key in ("metadata", "ruleSet") if found.get(key)}
        text = json.dumps(contract, sort_keys=True) if contract else ""
        return Schema(str(found["schema"]), found.get("schemaType") or AVRO, references, text)

    def _ask(
        self,
        method: str,
        path: str,
        what: str,
        read: Callable[[Json], Read],
        **more: Any,  # noqa: ANN401 - JSON
    ) -> Read:
        """Returns the answer to a request, as `_asked` does, once the registry allows it."""
        end, tries = time.monotonic() + self._patience, 0
        failure: RegistryError | None = None
        while True:
            pause = self._allowed - time.monotonic()
            if self._allowed > end:
                text = f"it is asked too often, and allows no request for {pause:.0f} s"
                raise failure or self._error(self._first, what, TOO_MANY, text, pause)
            if self._over.wait(max(0, pause)):
                raise failure or self._error(self._first, what, 0, "it is asked no more")
            try:
                return self._asked(method, path, what, read, **more)
            except RegistryError as error:
                if error.pause is None:
                    raise
                tries += 1
                pause = error.pause or PAUSES.after(tries)
                self._allowed = max(self._allowed, time.monotonic() + pause)
                failure = error

    def _asked(
        self,
        method: str,
        path: str,
        what: str,
        read: Callable[[Json], Read],
        **more: Any,  # noqa: ANN401 - JSON
    ) -> Read:
        """Returns the answer to a request, from the first address that has one.

        Args:
            method: Of HTTP.
            path: Behind the address.
            what: It does, for an error.
            read: Takes the answer, parsed.
            more: ``body``, sent as JSON; ``absent``, the answer if there is no such thing;
                ``empty``, what an answer without content says.
        """
        data = json.dumps(more["body"]).encode() if "body" in more else None
        failure: RegistryError | None = None
        count = len(self._config.urls)
        for number in [(self._first + step) % count for step in range(count)]:
            try:
                status, content, pause = self._send(number, method, path, data)
            except (OSError, HTTPException) as error:
                failure = self._error(number, what, 0, first_line(error))
                continue
            self._first = number
            if status < _REDIRECTS:
                if not content and "empty" in more:
                    raise self._error(number, what, status, more["empty"])
                try:
                    return read(read_json(content, LONGEST_ANSWER))
                except (ValueError, TypeError, LookupError, AttributeError):
                    raise self._error(number, what, status, _GARBAGE) from None
            if status == NOT_FOUND and "absent" in more and _is_of_registry(content):
                absent: Read = more["absent"]
                return absent
            failure = self._error(number, what, status, _reason(content), pause)
            if status < SERVER_ERROR:
                break
        assert failure is not None  # noqa: S101 - there is an address
        raise failure

    def _send(
        self, number: int, method: str, path: str, data: bytes | None
    ) -> tuple[int, bytes, float | None]:
        """Sends a request; on a connection that the registry has closed meanwhile, once more."""
        kept = self._connections.get(threading.get_ident())
        try:
            return self._sent(number, method, path, data)
        except (ConnectionError, HTTPException):
            self._drop()
            if kept is None or kept[0] != number:
                raise
            return self._sent(number, method, path, data)
        except OSError:
            self._drop()
            raise

    def _drop(self) -> None:
        known = self._connections.pop(threading.get_ident(), None)
        if known is not None:
            known[1].close()

    def _sent(
        self, number: int, method: str, path: str, data: bytes | None
    ) -> tuple[int, bytes, float | None]:
        url = urlsplit(self._config.urls[number])
        known = self._connections.get(threading.get_ident())
        if known is None or known[0] != number:
            self._drop()
            known = number, self._connect(url.scheme, url.hostname or "", url.port)
            self._connections[threading.get_ident()] = known
        headers = {"Accept": f"{TYPE}, application/json", "Content-Type": TYPE}
        if self._config.user:
            credentials = b64encode(self._config.user.encode()).decode()
            headers["Authorization"] = f"Basic {credentials}"
        connection = known[1]
        connection.request(method, url.path + path, data, headers)
        answer: HTTPResponse = connection.getresponse()
        if _REDIRECTS <= answer.status < INVALID_REQUEST:
            self._drop()
            where = f"leads to {_bare(answer.headers.get('Location'))}"
            return answer.status, where.encode(), None
        return answer.status, self._content(answer), _pause(answer)

    def _content(self, answer: HTTPResponse) -> bytes:
        found, end = bytearray(), time.monotonic() + LONGEST_WAITS * self._timeout
        while part := answer.read1(_PART):
            found += part
            if len(found) > LONGEST_ANSWER or time.monotonic() > end:
                self._drop()
                raise TimeoutError("an answer without an end")
        return bytes(found) + answer.read()  # nothing more: the connection is free now

    def _masked(self, text: str) -> str:
        """Returns *text* without our user and password, which some proxies give back."""
        user = self._config.user
        if user:
            for secret in (b64encode(user.encode()).decode(), user, user.partition(":")[2]):
                text = text.replace(secret, MASK) if secret else text
        return text

    def _connect(self, scheme: str, host: str, port: int | None) -> HTTPConnection:
        if scheme == "http":
            return HTTPConnection(host, port, timeout=self._timeout)
        context = ssl.create_default_context(cafile=self._config.trusted or None)
        if self._config.own:
            context.load_cert_chain(self._config.own, password=self._config.password or None)
        return HTTPSConnection(host, port, timeout=self._timeout, context=context)

    def _error(
        self, number: int, what: str, status: int, reason: str, pause: float | None = None
    ) -> RegistryError:
        step = _STEPS.get(status, "see the registry's log")
        if _NO_IMPORT in reason:
            step = "write replication.schemas: translate"
        elif status < INVALID_REQUEST:  # something else answers
            step = "check that {alias}." + URL + " is the address of a registry itself"
        if not status:
            step = f"check that a registry listens there, and {self.alias}.{URL}"
            if "ssl" in reason.lower() or "certificate" in reason.lower():
                step = f"correct {self.alias}.{TRUSTED} or {self.alias}.{OWN}"
        reason = self._masked(reason)
        said = f"{status} {reason}" if status else f"no answer: {reason}"
        where = f"the schema registry of cluster {self.alias} at {self._config.urls[number]}"
        text = f"cannot {what} at {where}: {said}; {step.format(alias=self.alias)}"
        return RegistryError(text, status, reason, pause)


def _pause(answer: HTTPResponse) -> float | None:
    """Returns how long an answer asks to wait, 0 if it does not say how long; None if it does not.

    ``Retry-After`` is a number of seconds, or a date.
    """
    said = answer.headers.get("Retry-After", "")
    if answer.status != TOO_MANY and (answer.status != UNAVAILABLE or not said):
        return None
    if said.strip().isdecimal():
        return min(float(said), LONGEST_PAUSE)
    try:
        return max(0.0, parsedate_to_datetime(said).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):
        return 0.0


def _bare(location: str | None) -> str:
    try:
        url = urlsplit(location or "")
        return printable(f"{url.scheme}://{url.hostname}{url.path}") if url.hostname else "nowhere"
    except ValueError:
        return "nowhere"


def _quoted(subject: str) -> str:
    return quote(subject, safe="")


def _body(schema: Schema) -> dict[str, Any]:
    body: dict[str, Any] = {"schema": schema.text}
    if schema.kind != AVRO:
        body["schemaType"] = schema.kind
    if schema.references:
        body["references"] = [
            {"name": one.name, "subject": one.subject, "version": one.version}
            for one in schema.references
        ]
    return body | (json.loads(schema.contract) if schema.contract else {})


def _number(value: object) -> int:
    """Returns the id or the version that a registry gives, for which a record has four bytes."""
    return whole(value, most=MOST_ID)


def _is_of_registry(content: bytes) -> bool:
    """Returns whether a 404 says that a thing is not there, and not that nobody knows the path."""
    try:
        return whole(read_json(content)["error_code"]) > NOT_FOUND
    except (KeyError, TypeError, ValueError):
        return False


def _reason(content: bytes) -> str:
    try:
        text = str(read_json(content)["message"])
    except (KeyError, TypeError, ValueError):
        text = content.decode(errors="replace")
    return printable(" ".join(text.split()))[:LONGEST_TEXT] or "nothing"
