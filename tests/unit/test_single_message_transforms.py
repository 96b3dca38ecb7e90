"""Chains of Kafka Connect: what has a counterpart, what is refused, and what to write instead.

That the counterparts do the same is tested beside MirrorMaker 2, in tests/cluster/mm2.
"""

import pytest

from replication.mm2.single_message_transforms import Counterpart, counterpart, text_literal

KAFKA = "org.apache.kafka.connect.transforms"
REMOTE = "concat('A.', topic)"


def chain(text: str, remote: str | None = REMOTE) -> Counterpart:
    """What the chain is whose keys and values are the lines of *text*."""
    pairs = (line.split("=", 1) for line in text.split("\n") if line.strip())
    return counterpart({key.strip(): value.strip() for key, value in pairs}, remote)


FILTER = """
transforms=f
transforms.f.type=org.apache.kafka.connect.transforms.Filter
transforms.f.predicate=p
predicates=p
"""


@pytest.mark.parametrize(
    ("predicate", "condition"),
    [
        ("RecordIsTombstone", "value IS NULL"),
        (
            "HasHeaderKey\npredicates.p.name=it's",
            r"coalesce(exists(headers, h -> h.key = 'it\'s'), false)",
        ),
        (
            "TopicNameMatches\npredicates.p.pattern=A\\.x|y",
            r"concat('A.', topic) RLIKE '^(?:A\\.x|y)$'",
        ),
    ],
)
@pytest.mark.parametrize("package", [f"{KAFKA}.predicates.", ""])
def test_a_filter_drops_what_its_predicate_matches(
    predicate: str, condition: str, package: str
) -> None:
    text = f"{FILTER}predicates.p.type={package}{predicate}\n"

    found, negated = chain(text), chain(f"{text}transforms.f.negate=true")

    assert found.settings == {
        "replication.transforms": ("f",),
        "replication.transforms.f.topics": (".*",),
        "replication.transforms.f.filter": f"NOT ({condition})",
    }
    assert negated.settings["replication.transforms.f.filter"] == f"NOT (NOT ({condition}))"
    assert (found.problems, found.warnings) == ({}, {})
    assert found.origins["replication.transforms.f.filter"] == "transforms.f.type"


def test_a_filter_without_a_predicate_drops_everything_and_is_warned_of() -> None:
    found = chain("transforms=f\ntransforms.f.type=Filter")

    assert found.settings["replication.transforms.f.filter"] == "false"
    assert "every record is dropped" in found.warnings["transforms.f.type"]


def test_headers_are_dropped_by_name() -> None:
    text = "transforms=d\ntransforms.d.type=DropHeaders\ntransforms.d.headers= a , b,a\n"

    assert chain(text).settings["replication.transforms.d.headers.remove"] == ("a", "b")

    more = "transforms.d.predicate=p\npredicates=p\npredicates.p.type=RecordIsTombstone\n"
    found = chain(text + more).settings
    assert found["replication.transforms.d.headers"] == (
        "if(value IS NULL, filter(headers, h -> h.key NOT IN ('a', 'b')), headers)"
    )


INSERT = "transforms=i\ntransforms.i.type=InsertHeader\ntransforms.i.header=origin\n"


@pytest.mark.parametrize(
    ("literal", "value"),
    [
        ("eu-west", "cast('eu-west' AS binary)"),
        ("it's", r"cast('it\'s' AS binary)"),
        ("7", "cast('7' AS binary)"),
        ("-12", "cast('-12' AS binary)"),
        ("true", "cast('true' AS binary)"),
        ("", "cast('' AS binary)"),
        ("null", "cast(NULL AS binary)"),
        ("10.0.0.1", "cast('10.0.0.1' AS binary)"),
        ("1f", "cast('1f' AS binary)"),
    ],
)
def test_a_header_is_inserted_with_the_text_of_its_literal(literal: str, value: str) -> None:
    found = chain(f"{INSERT}transforms.i.value.literal={literal}")

    assert found.settings["replication.transforms.i.headers.add.origin"] == value
    assert found.problems == {}


def test_an_inserted_header_with_a_predicate_or_an_odd_name_is_an_expression() -> None:
    literal = "transforms.i.value.literal=x\n"
    more = "transforms.i.predicate=p\npredicates=p\npredicates.p.type=RecordIsTombstone\n"
    added = "array(struct('{}' AS key, cast('x' AS binary) AS value))"

    odd = chain(INSERT.replace("origin", "a:b") + literal).settings
    conditional = chain(INSERT + literal + more).settings

    one, two = added.format("a:b"), added.format("origin")
    assert odd["replication.transforms.i.headers"] == (
        f"if(headers IS NULL, {one}, concat(headers, {one}))"
    )
    assert conditional["replication.transforms.i.headers"] == (
        f"if(value IS NULL, if(headers IS NULL, {two}, concat(headers, {two})), headers)"
    )


@pytest.mark.parametrize(
    ("converter", "warning"),
    [
        ("", "MirrorMaker 2 itself fails here"),
        ("org.apache.kafka.connect.converters.ByteArrayConverter", "itself fails here"),
        ("org.apache.kafka.connect.storage.SimpleHeaderConverter", "makes base64"),
    ],
)
def test_what_the_converter_makes_of_a_text_is_said(converter: str, warning: str) -> None:
    more = f"header.converter={converter}\n" if converter else ""

    found = chain(f"{INSERT}transforms.i.value.literal=x\n{more}")

    assert warning in found.warnings["transforms.i.value.literal"]


@pytest.mark.parametrize(
    "literal", ["007", "+5", "1.50", "1e3", "2020-01-01", "12:00:00.000Z", "[1]", "{}", '"q"', "\\"]
)
def test_a_literal_that_connect_may_write_anew_is_refused(literal: str) -> None:
    found = chain(f"{INSERT}transforms.i.value.literal={literal}")

    assert found.settings == {}
    assert "headers.add.NAME: 'cast(''" in found.problems["transforms.i.value.literal"]


def test_a_literal_under_another_converter_is_refused() -> None:
    found = chain(
        f"{INSERT}transforms.i.value.literal=x\n"
        "header.converter=org.apache.kafka.connect.json.JsonConverter"
    )

    assert "other bytes by JsonConverter" in found.problems["transforms.i.value.literal"]


@pytest.mark.parametrize(
    ("text", "key", "said"),
    [
        ("transforms=f,f\ntransforms.f.type=Filter", "transforms", "'f' twice"),
        ("transforms=f", "transforms.f.type", "is missing or empty; write the class"),
        (f"{FILTER}", "predicates.p.type", "is missing or empty"),
        (
            FILTER.replace("predicates=p", ""),
            "transforms.f.predicate",
            "names 'p', which predicates does not list",
        ),
        (f"{FILTER}transforms.f.negate=yes", "transforms.f.negate", "neither true nor false"),
        (
            "transforms=f\ntransforms.f.type=Filter\ntransforms.f.negate=true",
            "transforms.f.negate",
            "negates no predicate",
        ),
        (f"{FILTER}predicates.p.type=HasHeaderKey", "predicates.p.name", "the name of the header"),
        (
            f"{FILTER}predicates.p.type=TopicNameMatches\npredicates.p.pattern=(",
            "predicates.p.pattern",
            "is not a supported pattern",
        ),
        (
            f"{FILTER}predicates.p.type=com.acme.RecordIsTombstone",
            "predicates.p.type",
            "'com.acme.RecordIsTombstone' has no counterpart",
        ),
        (
            "transforms=d\ntransforms.d.type=DropHeaders",
            "transforms.d.headers",
            "is missing or empty",
        ),
        (
            "transforms=d\ntransforms.d.type=DropHeaders\ntransforms.d.headers=,",
            "transforms.d.headers",
            "names no header",
        ),
        (INSERT, "transforms.i.value.literal", "is missing"),
        (
            "transforms=x\ntransforms.x.type=io.acme.Filter",
            "transforms.x.type",
            "'io.acme.Filter' has no counterpart; write what it does as SQL",
        ),
        (
            f"transforms=r\ntransforms.r.type={KAFKA}.RegexRouter",
            "transforms.r.type",
            "write IdentityReplicationPolicy",
        ),
        (
            f"transforms=m\ntransforms.m.type={KAFKA}.MaskField$Value\ntransforms.m.fields=a,b",
            "transforms.m.type",
            "transforms.m.value: 'cast(regexp_replace(cast(value AS string), ''\"a\":\"[^\"]*\"''",
        ),
        (
            f"transforms=m\ntransforms.m.type={KAFKA}.ReplaceField$Key\ntransforms.m.exclude=a",
            "transforms.m.type",
            "replication.transforms.m.key: 'cast(regexp_replace(cast(key AS string),",
        ),
        (
            f"transforms=s\ntransforms.s.type={KAFKA}.SetSchemaMetadata$Value",
            "transforms.s.type",
            "changes no byte; remove it",
        ),
    ],
)
def test_what_has_no_counterpart_is_refused_by_its_key(text: str, key: str, said: str) -> None:
    found = chain(text)

    assert list(found.problems) == [key]
    assert said in found.problems[key]


@pytest.mark.parametrize("part", ["Key", "Value"])
@pytest.mark.parametrize(
    "name",
    [
        *("Cast", "ExtractField", "Flatten", "HeaderFrom", "HoistField", "InsertField"),
        *("MaskField", "ReplaceField", "SetSchemaMetadata", "TimestampConverter"),
        *("RegexRouter", "TimestampRouter", "ValueToKey"),
    ],
)
def test_each_other_transform_of_kafka_is_refused_for_a_reason_of_its_own(
    name: str, part: str
) -> None:
    given = (
        f"{name}${part}" if name not in ("RegexRouter", "TimestampRouter", "ValueToKey") else name
    )
    found = chain(f"transforms=x\ntransforms.x.type={KAFKA}.{given}")

    assert found.settings == {}
    assert "has no counterpart" not in found.problems["transforms.x.type"]


def test_a_topics_name_that_only_a_class_knows_is_refused() -> None:
    text = f"{FILTER}predicates.p.type=TopicNameMatches\npredicates.p.pattern=a"

    assert (
        "only your replication.policy.class" in chain(text, None).problems["predicates.p.pattern"]
    )


def test_the_order_of_a_chain_is_kept_and_one_refused_transform_hides_no_other() -> None:
    found = chain(
        "transforms=b,bad,a\ntransforms.b.type=Filter\ntransforms.a.type=DropHeaders\n"
        "transforms.a.headers=h\ntransforms.bad.type=x.Y"
    )

    assert found.settings["replication.transforms"] == ("b", "a")
    assert list(found.problems) == ["transforms.bad.type"]


def test_a_text_becomes_a_literal_of_sql() -> None:
    assert text_literal("a'b\\c\"") == "'a\\'b\\\\c\"'"
