"""Schemas of copied topics reach the target's registry, under their own ids or under its own."""

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace

import pytest

from replication.config.schema_settings import registry_of
from replication.kafka.registry import Registry, RegistryError
from replication.schemas.difference import RegistryDifference
from replication.schemas.values import Reference
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
    there = both.target.subjects()
    assert sorted(there) == ["A.orders-key", "A.orders-value", "shop.Address"]
    assert there.index("shop.Address") < there.index("A.orders-value"), "what it needs"
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


@pytest.mark.parametrize("says_versions", [True, False])
def test_a_schema_costs_one_request_if_it_is_the_latest_and_else_few(
    both: Both, *, says_versions: bool
) -> None:
    both.b.says_versions = says_versions
    both.b.register("elsewhere-value", record("Elsewhere"))  # so that ids differ
    ids = [both.a.register("orders-value", record("Order", f"f{each}")) for each in range(4)]
    own = both.a.register("shop.Click", record("Click"))
    translated = TranslatedSchemas(both.source, both.target)

    def asks(number: int, topic: str) -> tuple[str, int, int]:
        """The version that is registered, and how many requests each registry got for it."""
        both.a.asked.clear()
        both.b.asked.clear()
        found = translated.register(number, topic, "value", REMOTE)
        assert found is not None
        assert both.b.context.subjects[found.subject][found.number] == found.id != number
        assert both.b.context.schemas[found.id] == both.a.context.schemas[number]
        return f"{found.subject} {found.number}", len(both.a.asked), len(both.b.asked)

    there = 1 if says_versions else 2
    assert asks(ids[0], "orders") == ("A.orders-value 1", 3, there)
    assert asks(ids[3], "orders") == ("A.orders-value 2", 0, there)
    assert asks(ids[1], "orders") == ("A.orders-value 3", 2, there)
    new = both.a.register("orders-value", record("Order", "new"))
    assert asks(new, "orders") == ("A.orders-value 4", 1, there)
    both.a.forbidden = "clicks-value"
    assert asks(own, "clicks") == ("shop.Click 1", 3, there)
    assert asks(own, "clicks") == ("shop.Click 1", 2, there)


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


def many(both: Both, count: int) -> None:
    """Subjects of one topic on A, the first of which has two versions."""
    for number in range(count):
        both.a.register(f"orders-shop.R{number}", record(f"R{number}"))
    both.a.register("orders-shop.R0", record("R0", "id"))


def kept(both: Both, preserved: PreservedSchemas) -> RegistryDifference:
    """A round: compares and registers."""
    for registry in (both.a, both.b):
        registry.asked.clear()
    found = preserved.compare(REMOTE, is_thorough=False)
    preserved.register(found)
    return found


def test_many_subjects_are_compared_by_few_requests(both: Both) -> None:
    many(both, 260)
    both.a.page = 100
    both.a.context.levels["orders-shop.R7"] = "FULL"
    preserved = PreservedSchemas(both.source, both.target)

    assert len(kept(both, preserved).missing) == 261
    assert len(both.a.asked) < 60  # five pages, the levels of 50 subjects
    reads = [each for each in both.b.asked if each.startswith("GET")]
    assert len(reads) < 10
    assert len(both.b.asked) < 2 * 261 + 20, "the mode of a subject, and each version"
    assert both.b.context.subjects["A.orders-shop.R0"] == both.a.context.subjects["orders-shop.R0"]

    new = both.a.register("orders-shop.R259", record("R259", "id"))
    both.a.register("orders-shop.New", record("New"))
    found = kept(both, preserved)
    assert {(one.subject, one.number) for one in found.missing} == {
        ("A.orders-shop.R259", 2),
        ("A.orders-shop.New", 1),
    }
    assert both.b.context.subjects["A.orders-shop.R259"][2] == new
    assert len(both.a.asked) + len(both.b.asked) < 230
    for _ in range(6):  # a level has its turn
        kept(both, preserved)
    assert both.b.context.levels == {"A.orders-shop.R7": "FULL"}
    assert preserved.compare(REMOTE).is_equal


def test_a_registry_without_lists_is_asked_for_some_subjects_a_round(both: Both) -> None:
    many(both, 130)
    both.a.has_lists = both.b.has_lists = False
    preserved = PreservedSchemas(both.source, both.target)
    assert len(kept(both, preserved).missing) == 131
    assert kept(both, preserved).is_equal
    assert len(both.a.asked) < 110
    both.a.register("orders-shop.R77", record("R77", "id"))
    both.a.register("orders-shop.New", record("New"))
    found = {one.subject for _ in range(3) for one in kept(both, preserved).missing}
    assert found == {"A.orders-shop.R77", "A.orders-shop.New"}
    assert preserved.compare(REMOTE).is_equal


@pytest.mark.parametrize("has_lists", [True, False])
def test_a_limit_of_requests_holds_nothing_up_for_ever(both: Both, *, has_lists: bool) -> None:
    many(both, 60)
    both.a.has_lists = both.b.has_lists = has_lists
    both.a.limit = both.b.limit = 40
    preserved = PreservedSchemas(both.source, both.target)
    assert len(kept(both, preserved).missing) == 61
    assert preserved.compare(REMOTE).is_equal


def test_a_round_goes_on_where_it_broke_off(both: Both) -> None:
    many(both, 60)
    both.a.has_lists = False
    preserved = PreservedSchemas(both.source, both.target)
    both.b.fault = 500
    with pytest.raises(RegistryError, match="500"):
        kept(both, preserved)
    both.b.fault = 0
    assert len(kept(both, preserved).missing) == 61
    assert [each for each in both.a.asked if "/versions/" in each] == []


def test_one_schema_that_is_refused_keeps_no_other(both: Both) -> None:
    many(both, 20)
    both.a.register("orders-shop.Bad", record("Bad"), references=[])
    preserved = PreservedSchemas(both.source, both.target)
    found = preserved.compare(REMOTE)
    missing = {"name": "x", "subject": "nowhere", "version": 1}
    bad = next(one for one in found.missing if one.subject == "A.orders-shop.Bad")
    reference = Reference(**missing)  # type: ignore[arg-type]
    refused = replace(bad, schema=replace(bad.schema, references=(reference,)))
    others = [one for one in found.missing if one != bad]
    with pytest.raises(RegistryError, match="a reference does not exist"):
        preserved.register(RegistryDifference((refused, *others)))
    assert len(both.b.context.subjects) == 20
