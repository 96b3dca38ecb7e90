"""What records and registries say of schemas, and how two registries differ."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replication.schemas.difference import Held, difference, in_order
from replication.schemas.values import (
    Part,
    Reference,
    Schema,
    Version,
    on_target,
    schema_id,
    subject_for,
    topic_of,
    with_id,
)

IDS = st.integers(0, 2**32 - 1)
RENAMED = {"orders": "A.orders", "orders-eu": "A.orders-eu"}


def version(subject: str, number: int, id_: int, text: str = "{}", *needs: Reference) -> Version:
    """A version of a subject."""
    return Version(subject, number, id_, Schema(text, references=needs))


def same(subject: str) -> str:
    """The name of a subject where topics keep theirs."""
    return subject


@given(IDS, IDS, st.binary())
def test_an_id_changes_and_nothing_else(before: int, after: int, rest: bytes) -> None:
    framed = b"\0" + before.to_bytes(4, "big") + rest
    changed = with_id(framed, after)
    assert schema_id(framed) == before
    assert schema_id(changed) == after
    assert changed[5:] == rest
    assert with_id(changed, before) == framed


@pytest.mark.parametrize("part", [None, b"", b"\0\0\0\0", b"\1\0\0\0\5x", b"{}"])
def test_what_has_no_frame_has_no_id(part: bytes | None) -> None:
    assert schema_id(part) is None


@pytest.mark.parametrize(
    ("subject", "topic"),
    [
        ("orders-value", "orders"),
        ("orders-eu-value", "orders-eu"),
        ("orders-us-value", None),
        ("orders-com.shop.Order", "orders"),
        ("orders-eu-com.shop.Order", "orders-eu"),
        ("com.shop.Order", None),
        ("-value", None),
    ],
)
def test_a_subject_names_its_topic(subject: str, topic: str | None) -> None:
    assert topic_of(subject, RENAMED) == topic
    assert on_target(subject, RENAMED) == (f"A.{subject}" if topic else subject)


@pytest.mark.parametrize(
    ("uses", "part", "subjects"),
    [
        ({"orders-value", "clicks-value"}, "value", ("orders-value", "A.orders-value")),
        ({"orders-key"}, "value", ("orders-value", "A.orders-value")),
        ({"orders-key"}, "key", ("orders-key", "A.orders-key")),
        ({"orders-shop.Order"}, "value", ("orders-shop.Order", "A.orders-shop.Order")),
        ({"shop.Order", "orders-eu-value"}, "value", ("shop.Order", "shop.Order")),
        (set(), "value", ("orders-value", "A.orders-value")),
    ],
)
def test_a_schema_is_registered_by_the_strategy_of_its_producer(
    uses: set[str], part: Part, subjects: tuple[str, str]
) -> None:
    assert subject_for(uses, "orders", part, RENAMED) == subjects


def test_schemas_are_equal_by_what_they_mean() -> None:
    written = Schema('{"type": "record", "name": "x"}')
    assert written.means(Schema('{"name":"x","type":"record"}'))
    assert written.digest == Schema('{"name":"x","type":"record"}').digest
    assert not written.means(Schema('{"name":"y","type":"record"}'))
    assert not written.means(replace(written, kind="JSON"))
    assert Schema("syntax = 1;\n  x", "PROTOBUF").means(Schema("syntax = 1; x", "PROTOBUF"))
    needs = (Reference("a", "a-value", 3),)
    assert not replace(written, references=needs).means(written)
    assert replace(written, references=needs).means(
        replace(written, references=(Reference("a", "A.a-value", 1),))
    )


@st.composite
def registries(draw: st.DrawFn) -> Held:
    """A registry of some subjects whose later schemas may need earlier ones."""
    versions: list[Version] = []
    for id_ in draw(st.lists(st.integers(1, 500), unique=True, max_size=12)):
        subject = draw(st.sampled_from(["orders-value", "orders-key", "shop.Order"]))
        number = 1 + max([one.number for one in versions if one.subject == subject], default=0)
        needed = draw(st.lists(st.sampled_from(versions), max_size=2)) if versions else []
        references = tuple(Reference(f"r{one.id}", one.subject, one.number) for one in needed)
        versions.append(
            Version(subject, number, id_, Schema(json.dumps({"n": id_}), references=references))
        )
    levels = draw(st.dictionaries(st.sampled_from(["orders-value"]), st.just("FULL")))
    return Held(tuple(versions), compatibility=levels)


@given(registries())
def test_what_is_missing_makes_them_equal_and_each_comes_after_what_it_needs(source: Held) -> None:
    def named(subject: str) -> str:
        return on_target(subject, RENAMED)

    found = difference(source, Held(), named)
    known: set[tuple[str, int]] = set()
    for one in found.missing:
        assert {(need.subject, need.version) for need in one.schema.references} <= known
        known.add((one.subject, one.number))
    target = Held(found.missing, compatibility=found.levels)
    assert difference(source, target, named).is_equal
    assert {one.id for one in found.missing} == {one.id for one in source.versions}


@given(registries())
def test_a_registry_does_not_differ_from_itself(held: Held) -> None:
    assert difference(held, held, same).is_equal


def test_another_schema_under_an_id_is_a_conflict_whatever_its_subject() -> None:
    source = Held((version("orders-value", 1, 7, '"int"'),))
    target = Held(by_id={7: Schema('"string"')})
    (conflict,) = difference(source, target, same).conflicts
    assert conflict.kind == "id"
    assert "id 7 is another schema there" in conflict.text
    equal = Held(by_id={7: Schema(' "int" ')})
    assert difference(source, equal, same).conflicts == ()


def test_a_version_of_somebody_else_is_a_conflict() -> None:
    source = Held((version("orders-value", 1, 7, '"int"'),))
    target = Held(
        (version("orders-value", 1, 9, '"long"'), version("orders-value", 2, 10, '"bytes"'))
    )
    kinds = [conflict.kind for conflict in difference(source, target, same).conflicts]
    assert kinds == ["version", "foreign"]


def test_subjects_of_others_do_not_matter() -> None:
    source = Held((version("orders-value", 1, 7),))
    target = Held((version("orders-value", 1, 7), version("clicks-value", 1, 8, '"int"')))
    assert difference(source, target, same).is_equal


def test_a_reference_that_is_not_among_them_changes_no_order() -> None:
    needs = version("b", 1, 1, "{}", Reference("x", "elsewhere", 4))
    assert list(in_order([needs])) == [needs]
