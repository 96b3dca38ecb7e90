"""A registry is asked over HTTP: what it answers, and what an operator reads where it does not."""

import json
import socket
import threading
import time
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from email.utils import formatdate

import pytest

from replication.config.schema_settings import RegistryConfig, registry_of
from replication.kafka.registry import Registry, RegistryError
from replication.schemas.values import Reference, Schema, Version
from tests.support.schema_registry import FakeRegistry, fake_registry, served

ORDER = {"type": "record", "name": "Order", "fields": []}
SCHEMA = Schema(json.dumps(ORDER))


def config(*urls: str, **more: str) -> RegistryConfig:
    """How to reach a registry."""
    settings = {f"schema.registry.{key.replace('_', '.')}": value for key, value in more.items()}
    return registry_of({"schema.registry.url": urls, **settings})


@pytest.fixture
def fake() -> Iterator[FakeRegistry]:
    with fake_registry() as registry:
        yield registry


Reach = Callable[..., Registry]


@pytest.fixture
def reach() -> Iterator[Reach]:
    """Opens registries of cluster B, and closes them."""
    with ExitStack() as stack:

        def opened(*urls: str, timeout: float = 5, **more: str) -> Registry:
            registry = Registry("B", config(*urls, **more), timeout=timeout)
            stack.callback(registry.close)
            return registry

        yield opened


@pytest.fixture
def asked(fake: FakeRegistry, reach: Reach) -> Registry:
    return reach(fake.url)


def test_a_schema_is_registered_and_found_again(fake: FakeRegistry, asked: Registry) -> None:
    registered = asked.register("orders-value", SCHEMA)
    id_ = registered.id
    assert registered == Version("orders-value", 1, id_, SCHEMA)
    fake.says_versions = False
    assert asked.register("orders-value", SCHEMA) == Version("orders-value", 0, id_, SCHEMA)
    assert asked.latest("orders-value") == registered
    assert asked.latest("elsewhere") is None
    assert asked.subjects() == ["orders-value"]
    assert asked.versions("orders-value") == [1]
    assert asked.versions("elsewhere") == []
    assert asked.version("orders-value", 1) == Version("orders-value", 1, id_, SCHEMA)
    assert asked.schema(id_) == SCHEMA
    assert asked.schema(999) is None
    assert asked.uses(id_) == [("orders-value", 1)]
    assert asked.lookup("orders-value", SCHEMA) == Version("orders-value", 1, id_, SCHEMA)
    assert asked.lookup("clicks-value", SCHEMA) is None
    assert len(fake.asked) == 13


def test_a_version_keeps_its_number_and_id_in_import_mode(asked: Registry) -> None:
    needed = Version("address", 4, 77, Schema("syntax", "PROTOBUF"))
    contract = json.dumps({"metadata": {"tags": {}}})
    schema = Schema("{}", "JSON", (Reference("a.json", "address", 4),), contract)
    with pytest.raises(RegistryError, match="is not in import mode") as refused:
        asked.put(needed)
    assert refused.value.is_final
    for version in (needed, Version("a/b c", 9, 78, schema)):
        asked.begin_import(version.subject)
        asked.put(version)
        asked.put(version)
        assert asked.mode(version.subject) == "IMPORT"
        assert asked.version(version.subject, version.number) == version
    with pytest.raises(RegistryError, match="Overwrite new schema with id 77 is not permitted"):
        asked.put(Version("address", 5, 77, SCHEMA))


def test_a_registry_without_modes_is_no_place_for_ids_of_another(
    fake: FakeRegistry, asked: Registry
) -> None:
    fake.has_modes = False  # as Apicurio's: no content of a mode, and ids are its own
    for ask in (asked.mode, asked.begin_import):
        with pytest.raises(RegistryError, match=r"write replication\.schemas: translate"):
            ask("orders-value")
    with pytest.raises(RegistryError, match=r"it has given the id 1; .* translate"):
        asked.put(Version("orders-value", 4, 77, SCHEMA))


def test_a_level_is_of_its_subject(asked: Registry) -> None:
    assert asked.compatibility("orders-value") is None
    asked.set_compatibility("orders-value", "FULL")
    assert asked.compatibility("orders-value") == "FULL"


def test_a_context_has_names_of_its_own(fake: FakeRegistry, reach: Reach) -> None:
    registry = reach(f"{fake.url}/contexts/.A")
    id_ = registry.register("orders-value", SCHEMA).id
    assert registry.subjects() == ["orders-value"]
    assert registry.uses(id_) == [("orders-value", 1)]
    assert fake.context.subjects == {}


def test_another_address_answers_where_the_first_does_not(fake: FakeRegistry, reach: Reach) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        nobody = f"http://127.0.0.1:{taken.getsockname()[1]}"
    registry = reach(nobody, fake.url)
    assert registry.subjects() == []
    assert registry.address == fake.url


def test_a_connection_that_was_closed_meanwhile_is_opened_again(
    fake: FakeRegistry, reach: Reach
) -> None:
    registry = reach(fake.url)
    assert registry.subjects() == []
    ((_, connection),) = registry._connections.values()  # noqa: SLF001 - the other side closes it
    connection.sock.shutdown(socket.SHUT_RDWR)
    assert registry.subjects() == []


@pytest.mark.parametrize(
    ("status", "step", "is_final"),
    [
        (401, "correct B.schema.registry.basic.auth.user.info", False),
        (403, "allow the user", False),
        (404, "check that B.schema.registry.url is the address of a registry", False),
        (409, "change the compatibility level", True),
        (422, "see what the registry says", True),
        (302, "check that B.schema.registry.url is the address of a registry itself", False),
        (500, "see the registry's log", False),
        (503, "see the registry's log", False),
    ],
)
def test_an_error_says_what_was_tried_where_and_what_to_do(
    fake: FakeRegistry, asked: Registry, status: int, step: str, *, is_final: bool
) -> None:
    fake.fault = status
    with pytest.raises(RegistryError) as raised:
        asked.register("orders-value", SCHEMA)
    text = str(raised.value)
    where = f"the schema registry of cluster B at {fake.url}"
    said = "leads to http://elsewhere/login" if status == 302 else "planted"
    start = f"cannot register a schema as orders-value at {where}: {status} {said}; "
    assert text.startswith(start + step)
    assert raised.value.is_final == is_final


def test_what_is_not_there_is_not_a_path_that_nobody_knows(
    fake: FakeRegistry, reach: Reach
) -> None:
    registry = reach(f"{fake.url}/elsewhere")
    with pytest.raises(RegistryError, match="404"):
        registry.versions("orders-value")


def test_a_password_keeps_its_blanks_as_in_confluents_client(
    fake: FakeRegistry, reach: Reach
) -> None:
    fake.user = " me: right \u00a0"
    assert reach(fake.url, basic_auth_user_info=fake.user).subjects() == []


def test_a_password_is_shown_by_nothing(fake: FakeRegistry, reach: Reach) -> None:
    fake.user = "me:right"
    known = reach(fake.url, basic_auth_user_info="me:right")
    assert known.subjects() == []
    unknown = reach(fake.url, basic_auth_user_info="me:hush")
    with pytest.raises(RegistryError, match="401 Unauthorized") as raised:
        unknown.subjects()
    assert "hush" not in str(raised.value) + repr(vars(unknown))


ASKED: Mapping[str, Callable[[Registry], object]] = {
    "subjects": lambda registry: registry.subjects(),
    "versions": lambda registry: registry.versions("orders-value"),
    "version": lambda registry: registry.version("orders-value", 1),
    "latest": lambda registry: registry.latest("orders-value"),
    "schema": lambda registry: registry.schema(1),
    "uses": lambda registry: registry.uses(1),
    "lookup": lambda registry: registry.lookup("orders-value", SCHEMA),
    "register": lambda registry: registry.register("orders-value", SCHEMA),
    "compatibility": lambda registry: registry.compatibility("orders-value"),
    "mode": lambda registry: registry.mode("orders-value"),
}


@pytest.mark.parametrize(
    "garbage", [b"<html>", b"\xff", b'{"a": 1}', b"[[1]]", b"7", b"[" * 99_999]
)
@pytest.mark.parametrize("what", ASKED)
def test_what_no_registry_answers_is_an_error_like_any_other(
    fake: FakeRegistry, asked: Registry, what: str, garbage: bytes
) -> None:
    fake.garbage = garbage
    with pytest.raises(RegistryError, match="an answer that no registry gives; check that B"):
        ASKED[what](asked)
    fake.garbage = b""
    assert asked.schema(999) is None


def test_an_answer_that_does_not_end_is_left(reach: Reach) -> None:
    over = threading.Event()

    def drip(server: socket.socket) -> None:
        connection, _ = server.accept()
        with connection, suppress(OSError):
            connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n[")
            while not over.wait(0.02):
                connection.sendall(b" ")

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=drip, args=[server], daemon=True)
        thread.start()
        try:
            with pytest.raises(RegistryError, match="no answer: an answer without an end"):
                reach(f"http://127.0.0.1:{server.getsockname()[1]}", timeout=0.5).subjects()
        finally:
            over.set()
            thread.join()


def test_what_is_secret_is_masked_where_a_registry_gives_it_back(
    fake: FakeRegistry, reach: Reach
) -> None:
    fake.fault = 500
    fake.words = f"Basic {b64encode(b'me:hush').decode()} of me:hush (hush)"
    with pytest.raises(RegistryError) as raised:
        reach(fake.url, basic_auth_user_info="me:hush").subjects()
    for text in (str(raised.value), raised.value.reason):
        assert "hush" not in text
        assert b64encode(b"me:hush").decode() not in text


def test_a_registry_that_is_silent_is_left(fake: FakeRegistry, reach: Reach) -> None:
    registry = reach(fake.url, timeout=0.2)
    fake.held.set()
    try:
        with pytest.raises(RegistryError, match="no answer: timed out") as raised:
            registry.subjects()
    finally:
        fake.held.clear()
    assert raised.value.status == 0
    assert registry.subjects() == []


def test_what_is_no_registry_is_said(fake: FakeRegistry, reach: Reach) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
    with pytest.raises(RegistryError, match="check that a registry listens there"):
        reach(url).subjects()
    secured = reach(fake.url.replace("http:", "https:"))
    with pytest.raises(RegistryError, match=r"correct B.schema.registry.ssl.truststore.location"):
        secured.subjects()


def test_what_it_knows_outlives_its_server(reach: Reach) -> None:
    registry = FakeRegistry()
    with served(registry):
        id_ = reach(registry.url).register("orders-value", SCHEMA).id
    with served(registry):
        assert reach(registry.url).schema(id_) == SCHEMA


@pytest.mark.parametrize(
    ("status", "pause"), [(429, ""), (429, "1"), (503, "1"), (503, "DATE"), (429, "gibberish")]
)
def test_a_registry_that_is_asked_too_often_is_left_alone_as_long_as_it_says(
    fake: FakeRegistry, reach: Reach, status: int, pause: str
) -> None:
    date = formatdate(time.time() + 2, usegmt=True)
    fake.fault, fake.pause = status, date if pause == "DATE" else pause
    registry = reach(fake.url)
    begun = time.monotonic()
    heal = threading.Timer(0.3, lambda: setattr(fake, "fault", 0))
    heal.start()
    assert registry.each(registry.versions, ["a", "b", "c"]) == [[], [], []]
    assert 0.7 < time.monotonic() - begun < 8
    assert len(fake.asked) <= 6
    heal.join()


def test_a_pause_beyond_patience_is_an_error_and_is_kept(fake: FakeRegistry, reach: Reach) -> None:
    fake.fault, fake.pause = 429, "3600"
    registry = reach(fake.url)
    with pytest.raises(RegistryError, match="429 planted; wait: the registry is asked too often"):
        registry.subjects()
    fake.fault = 0
    with pytest.raises(RegistryError, match=r"allows no request for 3[56]\d\d s"):
        registry.subjects()
    assert len(fake.asked) == 1


def test_what_waits_for_leave_is_interrupted(fake: FakeRegistry, reach: Reach) -> None:
    fake.fault, fake.pause = 429, "9"
    registry = reach(fake.url)
    threading.Timer(0.2, registry.interrupt).start()
    begun = time.monotonic()
    with pytest.raises(RegistryError, match="429"):
        registry.each(registry.versions, map(str, range(100)))
    assert time.monotonic() - begun < 5


def test_schemas_are_listed_by_pages(fake: FakeRegistry, reach: Reach) -> None:
    fake.page = 3
    for number in range(8):
        for version in range(2):
            fake.register(f"orders-{number}", f'"v{number}.{version}"')
    fake.register("clicks", '"int"')
    registry, context = reach(fake.url), reach(f"{fake.url}/contexts/.A")
    context.register("orders-0", SCHEMA)
    listed = registry.listed("orders-")
    assert listed is not None
    assert {(one.subject, one.number) for one in listed} == {
        (f"orders-{number}", version) for number in range(8) for version in (1, 2)
    }
    latest = registry.listed("", only_latest=True)
    assert latest is not None
    assert len(latest) == 9
    assert registry.version("orders-3", 2) in latest
    assert context.listed("") == [context.version("orders-0", 1)]
    fake.has_lists = False
    assert registry.listed("") is None
