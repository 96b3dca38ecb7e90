"""A flow's transforms are read and checked together, as far as their text tells."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replication.config.transforms import (
    chain_from,
    chain_text,
    is_same_chain,
    sql_problems,
    tried_transforms,
)
from replication.config.values import Raw
from replication.model import Transform
from tests.support.settings import ONE_FLOW, parse_settings, problems_of

FLOW = "A->B.replication.transforms"


def with_transform(values: dict[str, Raw], name: str = "mask") -> dict[str, Raw]:
    """A file whose flow lists one transform with *values*, by the ends of their keys."""
    return {**ONE_FLOW, FLOW: name, **{f"{FLOW}.{name}.{end}": raw for end, raw in values.items()}}


def problems(values: dict[str, Raw]) -> list[str]:
    """The problems of a transform with *values*, without the beginning of their keys."""
    return [text.removeprefix(f"{FLOW}.mask.") for text in problems_of(with_transform(values))]


def test_transforms_have_the_order_of_their_list_and_all_their_values() -> None:
    settings = {
        **ONE_FLOW,
        FLOW: ("mask", "eu-only"),
        f"{FLOW}.eu-only.topics": "orders.*",
        f"{FLOW}.eu-only.filter": "get_json_object(cast(value as string), '$.region') = 'eu'",
        f"{FLOW}.eu-only.unknown": "drop",
        f"{FLOW}.mask.topics": ("orders.*", "payments"),
        f"{FLOW}.mask.key": "sha2(key, 256)",
        f"{FLOW}.mask.key.injective": "true",
        f"{FLOW}.mask.value": "null",
        f"{FLOW}.mask.nullable": "true",
        f"{FLOW}.mask.headers.add.origin": "cast(topic as binary)",
        f"{FLOW}.mask.headers.add.a.b": "key",
        f"{FLOW}.mask.headers.remove": "authorization, cookie",
    }
    (flow,) = parse_settings(settings).flows
    assert flow.transforms == (
        Transform(
            name="mask",
            topics=("orders.*", "payments"),
            key="sha2(key, 256)",
            value="null",
            headers_remove=("authorization", "cookie"),
            headers_add=(("origin", "cast(topic as binary)"), ("a.b", "key")),
            nullable=True,
            injective=True,
        ),
        Transform(
            name="eu-only",
            topics=("orders.*",),
            filter="get_json_object(cast(value as string), '$.region') = 'eu'",
            unknown="drop",
        ),
    )


def test_a_flow_lists_what_it_needs_of_the_top_level_and_may_change_it() -> None:
    settings = {
        **ONE_FLOW,
        "B->A.enabled": "true",
        "replication.transforms.mask.topics": "orders",
        "replication.transforms.mask.value": "key",
        "replication.transforms.few.topics": "orders",
        "replication.transforms.few.filter": "offset % 7 = 0",
        FLOW: "mask",
        f"{FLOW}.mask.value": "value",
        "B->A.replication.transforms": "few",
    }
    there, back = parse_settings(settings).flows
    assert there.transforms == (Transform(name="mask", topics=("orders",), value="value"),)
    assert [one.name for one in back.transforms] == ["few"]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"topics": "a", "vlaue": "key"}, "vlaue: unknown key; did you mean value?"),
        ({"topics": "a", "topic": "'b'"}, "topic: a transform cannot set the topic, partition,"),
        ({"topics": "a", "routing": "x"}, "routing: a transform cannot set the topic, partition,"),
        ({"value": "key"}, "topics: missing; name the topics whose records it changes"),
        ({"topics": "a"}, "filter: missing; write at least one of filter, key, value, headers or"),
        ({"topics": "a["}, "topics: 'a[' is not a supported pattern"),
        ({"topics": "heartbeats", "value": "key"}, "topics: 'heartbeats' are heartbeats: it would"),
        ({"topics": "mm2-offsets.A.internal", "value": "key"}, "topics: 'mm2-offsets.A.internal'"),
        (
            {"topics": "__consumer_offsets", "value": "key"},
            "topics: '__consumer_offsets' is an int",
        ),
        (
            {"topics": "a", "filter": "true", "unknown": "no"},
            "unknown: 'no' is invalid; write fail",
        ),
        ({"topics": "a", "value": "key", "nullable": "1"}, "nullable: '1' is invalid; write true"),
        ({"topics": "a", "value": "key", "unknown": "drop"}, "unknown: has no effect without"),
        ({"topics": "a", "value": "key", "key.injective": "true"}, "key.injective: has no effect"),
        (
            {"topics": "a", "headers.add.replication-provenance": "key"},
            "headers.add.replication-provenance: replication-provenance is the mirror's own header",
        ),
        (
            {"topics": "a", "headers.remove": "replication-provenance"},
            "headers.remove: replication-provenance is the mirror's own header",
        ),
        ({"topics": "a", "headers.add.": "key"}, "headers.add.: names no header; write"),
    ],
)
def test_what_is_wrong_is_said_with_what_to_write(values: dict[str, Raw], expected: str) -> None:
    found = problems(values)
    assert [text for text in found if text.startswith(expected)], found


def test_all_problems_of_all_transforms_come_at_once() -> None:
    settings = {
        **with_transform({"topics": "heartbeats", "value": "now("}),
        f"{FLOW}.other.value": "key",
        "B.replication.transforms.mask.value": "key",
        "replication.transforms.third.value": "key",
    }
    assert len(problems_of(settings)) == 6


@pytest.mark.parametrize(
    "expression",
    [
        "now()",
        "rand()",
        "uuid()",
        "concat(key, cast(current_timestamp as string))",
        "CURRENT_USER()",
        "unix_timestamp()",
        "shuffle(headers)",
        "java_method('java.util.UUID', 'randomUUID')",
        "timestamp > timestamp 'now'",
        "timestamp > DATE ' Yesterday '",
        "(select 1)",
        "if(value is null, raise_error('none'), value)",
        "key; drop",
        "key -- a comment",
        "key /* a comment */",
        "concat(key, value",
        "concat(key, value))",
        "headers[0)",
        "'open",
        "",
    ],
)
def test_what_text_alone_refuses(expression: str) -> None:
    assert sql_problems(expression)


@pytest.mark.parametrize(
    "expression",
    [
        "from_json(cast(value as string), 'now string').now",
        "cast('select now() -- (' as binary)",
        "unix_timestamp(cast(value as string), 'yyyy')",
        "to_timestamp(cast(value as string)) > timestamp '2026-01-01'",
        "`now`",
        "filter(headers, h -> h.key != 'it\\'s')[0].value",
        "value rlike '[^)]'",
        "offset % 7 = 0 and partition - 1 > -2",
    ],
)
def test_what_text_alone_cannot_refuse(expression: str) -> None:
    assert sql_problems(expression) == []


@given(st.text(max_size=80))
def test_no_text_breaks_the_check(expression: str) -> None:
    assert all(isinstance(problem, str) for problem in sql_problems(expression))


SQL = st.text(max_size=20)
TRANSFORMS = st.builds(
    Transform,
    name=st.just("x"),
    topics=st.just(("a",)),
    filter=SQL,
    key=SQL,
    value=SQL,
    headers=SQL,
    headers_remove=st.lists(SQL, max_size=2).map(tuple),
    headers_add=st.lists(st.tuples(SQL, SQL), max_size=2).map(tuple),
    unknown=st.sampled_from(["fail", "drop", "keep"]),
    nullable=st.booleans(),
)


@given(st.lists(TRANSFORMS, max_size=3).map(tuple))
def test_a_stored_chain_does_the_same(chain: tuple[Transform, ...]) -> None:
    assert is_same_chain(chain_from(chain_text(chain, "4.2.0")), chain)


@pytest.mark.parametrize("stored", ["{}", "[]", "1", '{"steps": [1]}'])
def test_what_nobody_stored_is_refused(stored: str) -> None:
    with pytest.raises(ValueError, match="not a stored transform"):
        chain_from(stored)


CHAINS = st.lists(TRANSFORMS, max_size=3).map(tuple)


@given(st.lists(CHAINS, max_size=3), CHAINS)
def test_only_what_this_spark_has_taken_is_tried(
    chains: list[tuple[Transform, ...]], other: tuple[Transform, ...]
) -> None:
    texts = [None, "", "{}", "no JSON", '{"steps": [1]}']
    texts += [chain_text(chain, "4.2.1") for chain in chains]
    rows = [{"transform": text} for text in texts]
    alone = {chain_text((one,), "4.2.1") for chain in chains for one in chain}

    assert tried_transforms(rows, "4.2.1") == alone
    assert tried_transforms(rows, "4.2.2") == set()
    rows.append({"transform": chain_text(other, "4.2.2")})
    assert tried_transforms(rows, "4.2.1") == alone
