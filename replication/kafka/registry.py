"""A cluster's schema registry, by the calls of Confluent's that a mirror needs.

A call is made once: whoever asks tries again. Errors say what was tried, where, what the registry
said and what to do, and never a password.
"""

import json
import ssl
from base64 import b64encode
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any, Final
from urllib.parse import quote, urlsplit

from replication.config.schema_settings import OWN, TRUSTED, URL, USER, RegistryConfig
from replication.errors import ClusterError, first_line, printable
from replication.schemas.values import AVRO, Reference, Schema, Version

TIMEOUT_SECONDS: Final = 10.0
"""Of connecting, and of each wait for bytes."""

LONGEST_TEXT: Final = 2_000
TYPE: Final = "application/vnd.schemaregistry.v1+json"

NOT_FOUND: Final = 404
INCOMPATIBLE: Final = 409
INVALID: Final = 422
SERVER_ERROR: Final = 500

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
    """

    code = "registry"

    def __init__(self, text: str, status: int, reason: str) -> None:
        self.status = status
        self.reason = reason
        super().__init__(text)

    @property
    def is_final(self) -> bool:
        """Whether the registry has understood the schema and refuses it."""
        return self.status in (INCOMPATIBLE, INVALID)


class Registry:
    """The schema registry of one cluster; its calls raise `RegistryError`.

    Not for several threads at once. Names of subjects are those within the context of the address.

    Args:
        alias: The cluster's.
        config: Where it is, and how to log in.
        timeout: Of each wait, in seconds.
    """

    def __init__(
        self, alias: str, config: RegistryConfig, timeout: float = TIMEOUT_SECONDS
    ) -> None:
        self.alias = alias
        self._config = config
        self._timeout = timeout
        self._first = 0  # of the addresses, the one that answered last
        self._connection: tuple[int, HTTPConnection] | None = None

    @property
    def address(self) -> str:
        """Where it is asked first."""
        return self._config.urls[self._first]

    def subjects(self) -> list[str]:
        """Returns the names of all subjects."""
        return [self._own(name) for name in self._ask("GET", "/subjects", "list its subjects")]

    def versions(self, subject: str) -> list[int]:
        """Returns the numbers of a subject's versions; none if there is no such subject."""
        path = f"/subjects/{_quoted(subject)}/versions"
        found = self._ask("GET", path, f"list the versions of {subject}", absent=[])
        return [int(number) for number in found]

    def version(self, subject: str, number: int) -> Version:
        """Returns one version of a subject, which exists; it may be a deleted one."""
        path = f"/subjects/{_quoted(subject)}/versions/{number}?deleted=true"
        found = self._ask("GET", path, f"read {subject} version {number}")
        return Version(subject, int(found["version"]), int(found["id"]), self._schema(found))

    def schema(self, number: int) -> Schema | None:
        """Returns the schema that has an id; None if none has."""
        path = f"/schemas/ids/{number}"
        found = self._ask("GET", path, f"read the schema with id {number}", absent=None)
        return None if found is None else self._schema(found)

    def uses(self, number: int) -> list[tuple[str, int]]:
        """Returns the subjects and versions whose schema has an id."""
        path = f"/schemas/ids/{number}/versions"
        found = self._ask("GET", path, f"list what has the schema id {number}", absent=[])
        return [(self._own(each["subject"]), int(each["version"])) for each in found]

    def lookup(self, subject: str, schema: Schema) -> Version | None:
        """Returns a subject's version with that schema; None if there is none."""
        path = f"/subjects/{_quoted(subject)}"
        what = f"look for a schema in {subject}"
        found = self._ask("POST", path, what, body=_body(schema), absent=None)
        if found is None:
            return None
        return Version(subject, int(found["version"]), int(found["id"]), schema)

    def register(self, subject: str, schema: Schema) -> int:
        """Registers a schema under a subject, unless it is there; returns its id."""
        path = f"/subjects/{_quoted(subject)}/versions"
        found = self._ask("POST", path, f"register a schema as {subject}", body=_body(schema))
        return int(found["id"])

    def put(self, version: Version) -> None:
        """Registers a version under its own number and id; the subject is in mode IMPORT."""
        path = f"/subjects/{_quoted(version.subject)}/versions"
        body = {**_body(version.schema), "id": version.id, "version": version.number}
        self._ask("POST", path, f"register {version}", body=body)

    def compatibility(self, subject: str) -> str | None:
        """Returns a subject's own compatibility level; None if it has none of its own."""
        path = f"/config/{_quoted(subject)}"
        found = self._ask("GET", path, f"read the compatibility of {subject}", absent=None)
        return None if found is None else str(found["compatibilityLevel"])

    def set_compatibility(self, subject: str, level: str) -> None:
        """Sets a subject's compatibility level."""
        path = f"/config/{_quoted(subject)}"
        body = {"compatibility": level}
        self._ask("PUT", path, f"set the compatibility of {subject} to {level}", body=body)

    def mode(self, subject: str) -> str:
        """Returns the mode in force for a subject, its own or that of the registry."""
        path = f"/mode/{_quoted(subject)}?defaultToGlobal=true"
        return str(self._ask("GET", path, f"read the mode of {subject}")["mode"])

    def begin_import(self, subject: str) -> None:
        """Puts a subject into mode IMPORT, in which versions keep their ids.

        By force, since it may have versions already. The caller has compared these.
        """
        path = f"/mode/{_quoted(subject)}?force=true"
        self._ask("PUT", path, f"set the mode of {subject} to IMPORT", body={"mode": "IMPORT"})

    def close(self) -> None:
        """Closes the connection; the next call opens one."""
        if self._connection is not None:
            self._connection[1].close()
            self._connection = None

    def _own(self, subject: str) -> str:
        """Returns the name of a subject within the context of the address, ``:.A:name`` there."""
        return subject.split(":", 2)[2] if subject.startswith(":.") else subject

    def _schema(self, found: Mapping[str, Any]) -> Schema:
        references = tuple(
            Reference(each["name"], self._own(each["subject"]), int(each["version"]))
            for each in found.get("references") or ()
        )
        contract = {key: found[key] for key in ("metadata", "ruleSet") if found.get(key)}
        text = json.dumps(contract, sort_keys=True) if contract else ""
        return Schema(found["schema"], found.get("schemaType") or AVRO, references, text)

    def _ask(
        self,
        method: str,
        path: str,
        what: str,
        *,
        body: object = None,
        absent: object = ...,
    ) -> Any:  # noqa: ANN401 - JSON
        """Returns the answer to a request, from the first address that has one.

        Args:
            method: Of HTTP.
            path: Behind the address.
            what: It does, for an error.
            body: Sent as JSON.
            absent: The answer if there is no such thing; an error if not given.
        """
        failure: RegistryError | None = None
        count = len(self._config.urls)
        for number in [(self._first + step) % count for step in range(count)]:
            try:
                status, content = self._send(number, method, path, body)
            except (OSError, HTTPException) as error:
                failure = self._error(number, what, 0, first_line(error))
                continue
            self._first = number
            if status < 300:  # noqa: PLR2004 - HTTP's own
                return self._parsed(number, what, status, content)
            if status == NOT_FOUND and absent is not ... and _is_of_registry(content):
                return absent
            failure = self._error(number, what, status, _reason(content))
            if status < SERVER_ERROR:
                break
        assert failure is not None  # noqa: S101 - there is an address
        raise failure

    def _send(self, number: int, method: str, path: str, body: object) -> tuple[int, bytes]:
        """Sends a request; on a connection that the registry has closed meanwhile, once more."""
        is_kept = self._connection is not None and self._connection[0] == number
        try:
            return self._sent(number, method, path, body)
        except (ConnectionError, HTTPException):
            self.close()
            if not is_kept:
                raise
            return self._sent(number, method, path, body)
        except OSError:
            self.close()
            raise

    def _sent(self, number: int, method: str, path: str, body: object) -> tuple[int, bytes]:
        url = urlsplit(self._config.urls[number])
        if self._connection is None or self._connection[0] != number:
            self.close()
            self._connection = number, self._connect(url.scheme, url.hostname or "", url.port)
        headers = {"Accept": f"{TYPE}, application/json", "Content-Type": TYPE}
        if self._config.user:
            credentials = b64encode(self._config.user.encode()).decode()
            headers["Authorization"] = f"Basic {credentials}"
        connection = self._connection[1]
        data = None if body is None else json.dumps(body).encode()
        connection.request(method, url.path + path, data, headers)
        answer: HTTPResponse = connection.getresponse()
        return answer.status, answer.read()

    def _connect(self, scheme: str, host: str, port: int | None) -> HTTPConnection:
        if scheme == "http":
            return HTTPConnection(host, port, timeout=self._timeout)
        context = ssl.create_default_context(cafile=self._config.trusted or None)
        if self._config.own:
            context.load_cert_chain(self._config.own, password=self._config.password or None)
        return HTTPSConnection(host, port, timeout=self._timeout, context=context)

    def _parsed(self, number: int, what: str, status: int, content: bytes) -> Any:  # noqa: ANN401
        try:
            return json.loads(content)
        except ValueError:
            raise self._error(number, what, status, "an answer that is not JSON") from None

    def _error(self, number: int, what: str, status: int, reason: str) -> RegistryError:
        step = _STEPS.get(status, "see the registry's log")
        if not status:
            step = f"check that a registry listens there, and {self.alias}.{URL}"
            if "ssl" in reason.lower() or "certificate" in reason.lower():
                step = f"correct {self.alias}.{TRUSTED} or {self.alias}.{OWN}"
        said = f"{status} {reason}" if status else f"no answer: {reason}"
        where = f"the schema registry of cluster {self.alias} at {self._config.urls[number]}"
        text = f"cannot {what} at {where}: {said}; {step.format(alias=self.alias)}"
        return RegistryError(text, status, reason)


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


def _is_of_registry(content: bytes) -> bool:
    """Returns whether a 404 says that a thing is not there, and not that nobody knows the path."""
    try:
        return int(json.loads(content)["error_code"]) > NOT_FOUND
    except (KeyError, TypeError, ValueError):
        return False


def _reason(content: bytes) -> str:
    """Returns what the registry said, in one line."""
    try:
        text = str(json.loads(content)["message"])
    except (KeyError, TypeError, ValueError):
        text = content.decode(errors="replace")
    return printable(" ".join(text.split()))[:LONGEST_TEXT] or "nothing"
