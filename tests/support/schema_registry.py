"""A schema registry in the test's process, which answers as Confluent's does in what we ask.

From its source and from tests of two rewrites of it: ids and versions, IMPORT mode, references,
compatibility (a schema whose text has ``"incompatible"`` is refused), contexts in the path. A
context has schemas and ids of its own. Compared by hand with Apicurio's, which has no modes.
"""

import json
import threading
import time
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import md5
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from uuid import UUID

Answer = tuple[int, Any]
NOT_THERE: Answer = (404, {"error_code": 404, "message": "HTTP 404 Not Found"})


@dataclass
class Context:
    """The schemas of one context."""

    next_id: int = 1
    schemas: dict[int, dict[str, Any]] = field(default_factory=dict)
    subjects: dict[str, dict[int, int]] = field(default_factory=dict)
    levels: dict[str, str] = field(default_factory=dict)
    modes: dict[str, str] = field(default_factory=dict)

    def mode(self, subject: str) -> str:
        """The mode in force."""
        return self.modes.get(subject, self.modes.get("", "READWRITE"))

    def lookup(self, schema: dict[str, Any]) -> int | None:
        """The id of a schema."""
        return next((number for number, one in self.schemas.items() if one == schema), None)

    def register(self, subject: str, body: dict[str, Any]) -> Answer:
        """POST /subjects/{subject}/versions."""
        schema, id_ = essence(body), body.get("id")
        mode, versions = self.mode(subject), self.subjects.get(subject, {})
        if any(not self.has(each) for each in schema.get("references", ())):
            return error(422, 42201, "Invalid schema: a reference does not exist")
        if mode == "IMPORT":
            if id_ is None:
                return error(422, 42205, f"Subject {subject} is not in read-write mode")
            if self.schemas.get(id_, schema) != schema:
                return error(422, 42205, f"Overwrite new schema with id {id_} is not permitted.")
            number = body.get("version", 0)
        else:
            if id_ is not None:
                return error(422, 42205, f"Subject {subject} is not in import mode")
            known = self.lookup(schema)
            if known is not None and known in versions.values():
                return 200, {"id": known}
            if mode != "READWRITE":
                return error(422, 42205, f"Subject {subject} is in read-only mode")
            is_checked = self.levels.get(subject) != "NONE"
            if is_checked and "incompatible" in schema["schema"] and versions:
                text = f'Schema being registered is incompatible with "{subject}"'
                return error(409, 409, text)
            id_, number = known or self.next_id, 0
        self.next_id = max(self.next_id, id_ + 1)
        self.schemas[id_] = schema
        versions = self.subjects.setdefault(subject, {})
        versions[number if number > 0 else max(versions, default=0) + 1] = id_
        return 200, {"id": id_}

    def has(self, reference: dict[str, Any]) -> bool:
        """Whether what is referred to exists."""
        return reference["version"] in self.subjects.get(reference["subject"], {})

    def set_mode(self, subject: str, mode: str, *, by_force: bool) -> Answer:
        """PUT /mode/{subject}."""
        is_used = bool(self.subjects.get(subject)) if subject else bool(self.subjects)
        if mode == "IMPORT" and self.mode(subject) != "IMPORT" and is_used and not by_force:
            return error(422, 42205, "Cannot import since found existing subjects")
        self.modes[subject] = mode
        return 200, {"mode": mode}


@dataclass
class FakeRegistry:
    """What the server knows, and how it behaves.

    Attributes:
        url: Where it listens.
        user: Who may ask, as ``user:password``; everybody if empty.
        fault: A status that each request gets; none if 0.
        has_guids: Whether it knows GUIDs, as Confluent's does since version 8.
        says_versions: Whether it says a schema's version when it registers it, as some do.
        has_lists: Whether it lists schemas, as Confluent's does.
        page: How many of them it lists at once.
        limit: How many requests it answers in a second; any number if 0.
        pause: What ``Retry-After`` says with a fault; nothing if empty.
        window: The second of the last request, and how many there were.
        has_modes: Whether it knows modes, and so ids that others give.
        words: The registry's own with a fault.
        garbage: What each request gets in the place of an answer; nothing if empty.
        forbidden: A subject that the user may not read; none if empty.
        held: While it is set, answers wait.
        asked: The method and path of each request.
    """

    url: str = ""
    user: str = ""
    fault: int = 0
    has_guids: bool = True
    says_versions: bool = True
    has_lists: bool = True
    page: int = 1000
    limit: int = 0
    pause: str = ""
    window: tuple[int, int] = (0, 0)
    has_modes: bool = True
    words: str = "planted"
    garbage: bytes = b""
    forbidden: str = ""
    held: threading.Event = field(default_factory=threading.Event)
    asked: list[str] = field(default_factory=list)
    contexts: dict[str, Context] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def context(self) -> Context:
        """The default context."""
        return self.contexts.setdefault("", Context())

    def is_beyond_limit(self) -> bool:
        """Counts a request; returns whether it is one too many."""
        now = int(time.monotonic())
        with self.lock:
            second, count = self.window
            self.window = now, count + 1 if second == now else 1
            return 0 < self.limit < self.window[1]

    def register(self, subject: str, schema: object, **more: object) -> int:
        """Registers a schema as a producer does; returns its id."""
        text = schema if isinstance(schema, str) else json.dumps(schema)
        with self.lock:
            status, answer = self.context.register(subject, {"schema": text, **more})
        assert status == 200, answer
        return int(answer["id"])

    def answer(self, method: str, target: str, body: dict[str, Any]) -> Answer:
        """The answer to one request."""
        parts = urlsplit(target)
        path = [unquote(part) for part in parts.path.strip("/").split("/")]
        query, name = parse_qs(parts.query), ""
        if path[0] == "contexts":
            name, path = path[1], path[2:]
        context = self.contexts.setdefault(name, Context())
        prefix = f":{name}:" if name else ""
        match method, path:
            case "GET", ["schemas"] if self.has_lists:
                begins = query.get("subjectPrefix", [""])[0]
                listed = [
                    version(context, subject, number, prefix)[1]
                    for subject, numbers_ in context.subjects.items()
                    if subject.startswith(begins)
                    for number in (
                        [max(numbers_)] if query["latestOnly"] == ["true"] else sorted(numbers_)
                    )
                ]
                offset = int(query["offset"][0])
                return 200, listed[offset : offset + min(int(query["limit"][0]), self.page)]
            case "GET", ["subjects"]:
                return 200, [prefix + subject for subject in context.subjects]
            case "GET", ["subjects", subject, "versions"]:
                return numbers(context, subject)
            case "GET", ["subjects", self.forbidden, *_]:
                return error(403, 40301, "User is denied operation Read")
            case "GET", ["subjects", subject, "versions", "latest"]:
                there = context.subjects.get(subject)
                return (
                    version(context, subject, max(there), prefix) if there else no_subject(subject)
                )
            case "GET", ["subjects", subject, "versions", number]:
                return version(context, subject, int(number), prefix)
            case "POST", ["subjects", subject]:
                return looked_up(context, subject, body)
            case "POST", ["subjects", subject, "versions"]:
                status, given = context.register(subject, body)
                if status == 200 and self.says_versions:
                    given |= {"version": looked_up(context, subject, body)[1]["version"]}
                return status, given
            case "GET", ["schemas", "ids", number]:
                found = context.schemas.get(int(number))
                return (200, found) if found else error(404, 40403, f"Schema {number} not found")
            case "GET", ["schemas", "ids", number, "versions"]:
                return 200, uses(context, int(number), prefix)
            case "GET", ["schemas", "guids", guid, "ids"] if self.has_guids:
                return 200, [
                    {"context": f".{name}" if not name.startswith(".") else name, "id": number}
                    for name, each in self.contexts.items()
                    for number, one in each.schemas.items()
                    if guid_of(one) == guid
                ]
            case "GET", ["config", subject]:
                level = context.levels.get(subject)
                text = f"Subject '{subject}' does not have subject-level compatibility configured"
                return (200, {"compatibilityLevel": level}) if level else error(404, 40408, text)
            case "PUT", ["config", subject]:
                context.levels[subject] = body["compatibility"]
                return 200, body
            case "GET", ["mode", subject]:
                return 200, {"mode": context.mode(subject)}
            case "PUT", ["mode", *subject]:
                by_force = query.get("force") == ["true"]
                return context.set_mode("".join(subject), body["mode"], by_force=by_force)
        return NOT_THERE


def without_modes(registry: FakeRegistry, method: str, target: str, body: dict[str, Any]) -> Answer:
    """The answer of a registry that knows no modes, and so no ids that others give."""
    if target.startswith("/mode"):
        return 204, None
    own = {key: value for key, value in body.items() if key not in {"id", "version"}}
    return registry.answer(method, target, own)


def essence(body: dict[str, Any]) -> dict[str, Any]:
    """What makes a schema the same: AVRO is not written."""
    parts = ("schema", "references", "metadata", "ruleSet")
    kept: dict[str, Any] = {key: body[key] for key in parts if key in body}
    kind = body.get("schemaType", "AVRO")
    return kept if kind == "AVRO" else {**kept, "schemaType": kind}


def guid_of(schema: dict[str, Any]) -> str:
    """The GUID of a schema, which has its references in it."""
    return str(UUID(bytes=md5(json.dumps(schema, sort_keys=True).encode()).digest()))  # noqa: S324


def error(status: int, code: int, text: str) -> Answer:
    """An answer that refuses."""
    return status, {"error_code": code, "message": text}


def no_subject(subject: str) -> Answer:
    """The answer about a subject that is not there."""
    return error(404, 40401, f"Subject '{subject}' not found.")


def numbers(context: Context, subject: str) -> Answer:
    """GET /subjects/{subject}/versions."""
    if subject not in context.subjects:
        return no_subject(subject)
    return 200, sorted(context.subjects[subject])


def version(context: Context, subject: str, number: int, prefix: str) -> Answer:
    """GET /subjects/{subject}/versions/{number}."""
    id_ = context.subjects.get(subject, {}).get(number)
    if id_ is None:
        return error(404, 40402, f"Version {number} not found.")
    own = {"subject": prefix + subject, "version": number, "id": id_}
    return 200, {**own, **context.schemas[id_]}


def looked_up(context: Context, subject: str, body: dict[str, Any]) -> Answer:
    """POST /subjects/{subject}."""
    schema = essence(body)
    for number, id_ in context.subjects.get(subject, {}).items():
        if context.schemas[id_] == schema:
            return 200, {"subject": subject, "version": number, "id": id_, **schema}
    return error(404, 40403, "Schema not found")


def uses(context: Context, id_: int, prefix: str) -> list[dict[str, Any]]:
    """GET /schemas/ids/{id}/versions."""
    return [
        {"subject": prefix + subject, "version": number}
        for subject, versions in context.subjects.items()
        for number, one in versions.items()
        if one == id_
    ]


class Handler(BaseHTTPRequestHandler):
    """Answers for the registry of its server."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # headers and body are two sends
    registry: FakeRegistry

    def _answer(self) -> None:
        registry, pause = self.registry, ""
        size = int(self.headers.get("Content-Length", 0))
        body = json.loads(self.rfile.read(size)) if size else {}
        registry.asked.append(f"{self.command} {self.path}")
        while registry.held.is_set():
            if threading.Event().wait(0.02):
                break
        wanted = "Basic " + b64encode(registry.user.encode()).decode()
        if registry.user and self.headers.get("Authorization") != wanted:
            status, content = error(401, 401, "Unauthorized")
        elif registry.is_beyond_limit():
            status, content = error(429, 42901, "Too many requests")
            pause = "1"
        elif registry.fault:
            pause = registry.pause
            status, content = error(registry.fault, registry.fault * 100 + 1, registry.words)
        else:
            with registry.lock:
                answer = FakeRegistry.answer if registry.has_modes else without_modes
                status, content = answer(registry, self.command, self.path, body)
        status = 200 if registry.garbage else status
        data = registry.garbage or (b"" if content is None else json.dumps(content).encode())
        self.send_response(status)
        self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
        self.send_header("Content-Length", str(len(data)))
        if pause:
            self.send_header("Retry-After", pause)
        self.send_header("Location", "http://me:secret@elsewhere/login?token=secret")
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = do_PUT = do_DELETE = _answer  # noqa: N815 - names of http.server

    def log_message(self, *_: object) -> None:
        """Says nothing."""


Registries = tuple[FakeRegistry, FakeRegistry]
"""Those of clusters A and B."""


def own_keys(registry: FakeRegistry) -> dict[str, str]:
    """The keys of a cluster with this registry."""
    return {
        "schema.registry.url": registry.url,
        "schema.registry.basic.auth.user.info": registry.user,
    }


def keys(a: FakeRegistry, b: FakeRegistry, mode: str, topics: str) -> dict[str, str]:
    """The keys of a mirror from A to B with these registries."""
    return {
        **{f"A.{key}": value for key, value in own_keys(a).items()},
        **{f"B.{key}": value for key, value in own_keys(b).items()},
        "replication.schemas": mode,
        "replication.schemas.topics": topics,
    }


@contextmanager
def fake_registry(user: str = "", port: int = 0) -> Iterator[FakeRegistry]:
    """A registry that listens during the block."""
    registry = FakeRegistry(user=user)
    with served(registry, port):
        yield registry


@contextmanager
def served(registry: FakeRegistry, port: int = 0) -> Iterator[None]:
    """Lets *registry* listen during the block, with what it knows."""
    handler = type("OneHandler", (Handler,), {"registry": registry})
    with ThreadingHTTPServer(("127.0.0.1", port), handler) as server:
        server.daemon_threads = True
        registry.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()
