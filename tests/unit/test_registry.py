"""A registry is asked over HTTP: what it answers, and what an operator reads where it does not."""

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack

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
    id_ = asked.register("orders-value", SCHEMA)
    assert asked.register("orders-value", SCHEMA) == id_
    assert asked.subjects() == ["orders-value"]
    assert asked.versions("orders-value") == [1]
    assert asked.versions("elsewhere") == []
    assert asked.version("orders-value", 1) == Version("orders-value", 1, id_, SCHEMA)
    assert asked.schema(id_) == SCHEMA
    assert asked.schema(999) is None
    assert asked.uses(id_) == [("orders-value", 1)]
    assert asked.lookup("orders-value", SCHEMA) == Version("orders-value", 1, id_, SCHEMA)
    assert asked.lookup("clicks-value", SCHEMA) is None
    assert len(fake.asked) == 11


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


def test_a_level_is_of_its_subject(asked: Registry) -> None:
    assert asked.compatibility("orders-value") is None
    asked.set_compatibility("orders-value", "FULL")
    assert asked.compatibility("orders-value") == "FULL"


def test_a_context_has_names_of_its_own(fake: FakeRegistry, reach: Reach) -> None:
    registry = reach(f"{fake.url}/contexts/.A")
    id_ = registry.register("orders-value", SCHEMA)
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
    assert registry._connection is not None  # noqa: SLF001 - what the other side has closed
    registry._connection[1].sock.shutdown(socket.SHUT_RDWR)  # noqa: SLF001
    assert registry.subjects() == []


@pytest.mark.parametrize(
    ("status", "step", "is_final"),
    [
        (401, "correct B.schema.registry.basic.auth.user.info", False),
        (403, "allow the user", False),
        (404, "check that B.schema.registry.url is the address of a registry", False),
        (409, "change the compatibility level", True),
        (422, "see what the registry says", True),
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
    start = f"cannot register a schema as orders-value at {where}: {status} planted; "
    assert text.startswith(start + step)
    assert raised.value.is_final == is_final


def test_what_is_not_there_is_not_a_path_that_nobody_knows(
    fake: FakeRegistry, reach: Reach
) -> None:
    registry = reach(f"{fake.url}/elsewhere")
    with pytest.raises(RegistryError, match="404"):
        registry.versions("orders-value")


def test_a_password_is_shown_by_nothing(fake: FakeRegistry, reach: Reach) -> None:
    fake.user = "me:right"
    known = reach(fake.url, basic_auth_user_info="me:right")
    assert known.subjects() == []
    unknown = reach(fake.url, basic_auth_user_info="me:hush")
    with pytest.raises(RegistryError, match="401 Unauthorized") as raised:
        unknown.subjects()
    assert "hush" not in str(raised.value) + repr(vars(unknown))


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
        id_ = reach(registry.url).register("orders-value", SCHEMA)
    with served(registry):
        assert reach(registry.url).schema(id_) == SCHEMA
