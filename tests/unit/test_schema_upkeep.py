"""Schemas of copied topics reach the target's registry, under their own ids or under its own."""

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

import pytest

from replication.config.schema_settings import registry_of
from replication.kafka.registry import Registry, RegistryError
from replication.schemas.difference import RegistryDifference
from replication.upkeep.schemas import PreservedSchemas, TranslatedSchemas, refusal
from tests.support.schema_registry import FakeRegistry, Registries, guid_of, own_keys

REMOTE = {"orders": "A.orders", "clicks": "A.clicks"}


def record(name: str, *fields: str) -> str:
    """The text of an Avro schema."""
    listed = [{"name": field, "type": "string"} for field in fields]
    return json.dumps({"type": "record", "name": name, "fields": listed})


@dataclass
class Both:
    """Two registries, and what asks them."""

    a: FakeRegistry
    b: FakeRegistry
    source: Registry
    target: Registry


@pytest.fixture
def both(registries: Registries) -> Iterator[Both]:
    source, target = (
        Registry(alias, registry_of(own_keys(fake)))
        for alias, fake in zip("AB", registries, strict=True)
    )
    with closing(source), closing(target):
        yield Both(*registries, source, target)


def referring(both: Both) -> int:
    """A schema on A that needs another one, behind schemas of topics that nobody copies."""
    both.a.register("elsewhere-value", record("Elsewhere"))
    both.a.register("shop.Address", record("Address", "street"))
    reference = {"name": "shop.Address", "subject": "shop.Address", "version": 1}
    return both.a.register("orders-value", record("Order", "id"), references=[reference])


def test_preserved_schemas_have_their_ids_versions_and_levels(both: Both) -> None:
    last = referring(both)
    key = both.a.register("orders-key", '"string"')
    both.a.context.levels["orders-value"] = "FULL"
    preserved = PreservedSchemas(both.source, both.target)

    found = preserved.compare(REMOTE)
    assert [version.subject for version in found.missing] == [
        "shop.Address",
        "A.orders-value",
        "A.orders-key",
    ]
    preserved.register(found)

    assert both.target.version("A.orders-value", 1).id == last
    assert both.target.version("A.orders-key", 1).id == key
    assert both.target.schema(last) == both.source.schema(last)
    assert both.target.compatibility("A.orders-value") == "FULL"
    assert both.target.subjects() == ["shop.Address", "A.orders-value", "A.orders-key"]
    assert preserved.compare(REMOTE).is_equal


def test_a_new_version_follows_and_nothing_is_read_twice(both: Both) -> None:
    both.a.register("orders-value", record("Order"))
    preserved = PreservedSchemas(both.source, both.target)
    preserved.register(preserved.compare(REMOTE))
    new = both.a.register("orders-value", record("Order", "id"))
    both.a.asked.clear()

    found = preserved.compare(REMOTE)

    assert [(version.number, version.id) for version in found.missing] == [(2, new)]
    assert [each for each in both.a.asked if "/versions/" in each] == [
        "GET /subjects/orders-value/versions/2?deleted=true"
    ]
    preserved.register(found)
    assert preserved.compare(REMOTE).is_equal


def test_ids_of_others_at_the_target_are_listed_and_nothing_is_changed(both: Both) -> None:
    both.a.register("orders-value", record("Order"))
    both.a.register("orders-value", record("Order", "id"))
    both.b.register("other-value", '"bytes"')
    both.b.asked.clear()

    found = PreservedSchemas(both.source, both.target).compare(REMOTE)

    assert [conflict.kind for conflict in found.conflicts] == ["id"]
    text = str(refusal("A->B", found, both.b.url))
    assert "id 1 is another schema there, here it is A.orders-value version 1 (id 1)" in text
    assert f"{both.b.url}/contexts/.A" in text
    assert {each.split()[0] for each in both.b.asked} == {"GET"}


def test_an_error_lists_twenty_conflicts(both: Both) -> None:
    for number in range(25):
        both.a.register("orders-value", record("Order", f"f{number}"))
        both.b.register("other-value", record("Other", f"f{number}"))
    found = PreservedSchemas(both.source, both.target).compare(REMOTE)
    assert len(found.conflicts) == 25
    assert "- and 5 more" in str(refusal("A->B", found, "http://b"))


def test_a_translated_schema_gets_the_targets_id_after_what_it_needs(both: Both) -> None:
    source = referring(both)
    for kind in ("bytes", "int", "long"):
        both.b.register("other-value", json.dumps(kind))
    translated = TranslatedSchemas(both.source, both.target)

    found = translated.register(source, "orders", "value", REMOTE)

    assert found is not None
    assert (found.subject, found.number) == ("A.orders-value", 1)
    assert found.id != source
    there = both.target.version("A.orders-value", 1)
    assert there.id == found.id
    assert [one.subject for one in there.schema.references] == ["shop.Address"]
    assert translated.register(source, "orders", "value", REMOTE) == found


def test_an_id_that_nobody_knows_has_no_version(both: Both) -> None:
    assert TranslatedSchemas(both.source, both.target).register(9, "orders", "key", REMOTE) is None


def test_an_incompatible_schema_is_refused_with_the_registrys_words(both: Both) -> None:
    both.b.register("A.orders-value", record("Order"))
    both.a.register("first", '"int"')
    source = both.a.register("orders-value", record("Order", "incompatible"))
    with pytest.raises(RegistryError, match="409 Schema being registered is incompat") as raised:
        TranslatedSchemas(both.source, both.target).register(source, "orders", "value", REMOTE)
    assert raised.value.is_final


def test_nothing_differs_where_nothing_carries_ids(both: Both) -> None:
    both.a.register("elsewhere-value", record("Elsewhere"))
    found = PreservedSchemas(both.source, both.target).compare(REMOTE)
    assert found == RegistryDifference()


def test_a_schema_is_registered_by_its_guid_unless_that_is_another_there(both: Both) -> None:
    both.b.register("elsewhere-value", record("Elsewhere"))
    for name in ("First", "Second"):  # in a context that is not asked
        both.a.answer("POST", "/contexts/.X/subjects/x/versions", {"schema": record(name)})
    plain = both.a.register("orders-value", record("Order"))
    reference = {"name": "Order", "subject": "orders-value", "version": 1}
    needy = both.a.register("clicks-value", record("Click"), references=[reference])
    guids = {number: guid_of(both.a.context.schemas[number]) for number in (plain, needy)}
    translated = TranslatedSchemas(both.source, both.target)

    found = translated.register_guid(guids[plain], "orders", "value", REMOTE)

    assert found is not None
    assert (found.subject, found.id != plain) == ("A.orders-value", True)
    assert both.target.ids_of(guids[plain]) == [found.id]
    assert translated.register_guid(guids[needy], "clicks", "value", REMOTE) is None
    other = guid_of(both.a.contexts[".X"].schemas[2])
    assert translated.register_guid(other, "orders", "value", REMOTE) is None
    both.b.has_guids = False
    with pytest.raises(RegistryError, match="404") as raised:
        translated.register_guid(guids[plain], "orders", "value", REMOTE)
    assert raised.value.is_unsupported
    assert not raised.value.is_final
