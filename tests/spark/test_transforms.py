"""What transforms do with records, by the query and by whoever compares."""

from collections.abc import Sequence
from datetime import datetime, timezone
from itertools import product
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from replication.model import Chain, TopicPartition, Transform, Unknown
from replication.offsets.copy_rule import Copy, CopyRule
from replication.spark.causes import causes_of
from replication.spark.copies import (
    DROPPED,
    FAILURE,
    copied,
    copies_of,
    digested_originals,
    next_originals,
    printed_originals,
    transformed,
    tried,
)
from replication.spark.progress import SOURCE_SCHEMA, to_target

pytestmark = pytest.mark.spark

NOW = datetime(2026, 11, 26, tzinfo=timezone.utc)
EU = b'{"region":"eu","email":"a@b.c"}'
US = b'{"region":"us","email":"a@b.c"}'
BROKEN = b'{"region"'
JSON = "get_json_object(cast(value as string), '$.region')"
ONLY_EU = Transform(name="eu-only", topics=("orders",), filter=f"{JSON} = 'eu'")
MASK = Transform(
    name="mask",
    topics=("orders", "payments"),
    value="cast(regexp_replace(cast(value as string), '[^\"]*@[^\"]*', '***') as binary)",
    headers_add=(("origin", "cast(topic as binary)"),),
    headers_remove=("authorization",),
)
SECRET = [("authorization", b"x"), ("kept", None), ("authorization", b"y")]
Records = Sequence[tuple[Any, ...]]


def frame(spark: SparkSession, records: Records, topic: str = "orders") -> DataFrame:
    """*records* of key, value and headers as Spark's source has them, at the offsets 0, 1, ..."""
    rows = [
        (key, value, topic, 3, offset, NOW, 0, headers)
        for offset, (key, value, headers) in enumerate(records)
    ]
    return spark.createDataFrame(rows, SOURCE_SCHEMA)


def rule(*chain: Transform, topic: str = "orders") -> CopyRule:
    """The rule that applies *chain* to one topic."""
    return CopyRule(chains={topic: chain})


def values(copies: DataFrame) -> list[tuple[int, bytes | None]]:
    """Offset and value of each of *copies*."""
    return [(row.offset, row.value and bytes(row.value)) for row in copies.collect()]


def test_a_filter_a_mask_and_headers_are_applied_in_their_order(spark: SparkSession) -> None:
    records = frame(spark, [(b"k", EU, SECRET), (None, US, None), (b"", EU, None)])

    (first, second) = copies_of(records, rule(ONLY_EU, MASK)).collect()

    assert (first.offset, bytes(first.key)) == (0, b"k")
    assert bytes(first.value) == b'{"region":"eu","email":"***"}'
    assert [(one.key, one.value and bytes(one.value)) for one in first.headers] == [
        ("kept", None),
        ("origin", b"orders"),
    ]
    assert (second.offset, bytes(second.key)) == (2, b"")
    assert [one.key for one in second.headers] == ["origin"]


def test_records_of_other_topics_stay_as_they_are(spark: SparkSession) -> None:
    both = frame(spark, [(b"k", US, SECRET)]).union(frame(spark, [(b"k", US, SECRET)], "others"))
    (other,) = copies_of(both, rule(ONLY_EU, MASK)).collect()
    assert (other.topic, bytes(other.value)) == ("others", US)
    assert [one.key for one in other.headers] == [key for key, _ in SECRET]


def test_all_parts_of_a_transform_see_the_record_as_it_came(spark: SparkSession) -> None:
    swapped = Transform(
        name="swap", topics=("orders",), filter="key = binary('k')", key="value", value="key",
        headers_add=(("was", "key"),),
    )  # fmt: skip
    (one,) = copies_of(frame(spark, [(b"k", b"v", None)]), rule(swapped)).collect()
    assert (bytes(one.key), bytes(one.value)) == (b"v", b"k")
    assert bytes(one.headers[0].value) == b"k"


def test_without_transforms_the_plan_is_what_it_was(spark: SparkSession) -> None:
    records = frame(spark, [(b"k", EU, None)])

    def plan(with_rule: CopyRule) -> str:
        copies = to_target(records, {"orders": "A.orders"}, with_rule, intercepted=True)
        return str(copies._jdf.queryExecution().optimizedPlan().toString())  # noqa: SLF001

    assert plan(CopyRule()).count("Project") == plan(CopyRule(chains={})).count("Project") == 1
    assert "CASE WHEN (topic" not in plan(CopyRule())
    for compared in (copied, digested_originals, printed_originals):
        assert FAILURE not in str(compared(records, CopyRule())._jdf.queryExecution().toString())  # noqa: SLF001


@pytest.mark.parametrize(
    ("step", "text"),
    [
        (ONLY_EU, "the transform eu-only fails: its filter is NULL for orders-3 offset 1"),
        (
            Transform(name="cut", topics=("orders",), value=f"cast({JSON} as binary)"),
            "the transform cut fails: its value becomes NULL for orders-3 offset 1",
        ),
        (
            Transform(name="key", topics=("orders",), key=f"cast({JSON} as binary)"),
            "the transform key fails: its key becomes NULL for orders-3 offset 1",
        ),
        (
            Transform(
                name="h", topics=("orders",),
                headers=f"if({JSON} is null, null, headers)",
            ),
            "the transform h fails: its headers becomes NULL for orders-3 offset 1",
        ),
    ],
)  # fmt: skip
def test_what_nobody_can_decide_fails_with_its_place(
    spark: SparkSession, step: Transform, text: str
) -> None:
    records = frame(spark, [(b"k", EU, SECRET), (b"k", BROKEN, SECRET), (b"k", EU, SECRET)])
    with pytest.raises((PySparkException, Py4JJavaError)) as caught:
        copies_of(records, rule(step)).collect()
    assert causes_of(caught.value)[-1].record == (TopicPartition("orders", 3), 1)
    assert causes_of(caught.value)[-1].text == text
    told = {row.offset: row[FAILURE] for row in tried(records, {"orders": (step,)}).collect()}
    assert told == {0: None, 1: text, 2: None}
    assert [row.offset for row in copied(records, rule(step)).collect()] == [0, 2]
    following = records.where("offset > 0")
    (first,) = next_originals(following, rule(step)).collect()
    assert (first.offset, first[FAILURE]) == (1, text)


@pytest.mark.parametrize(("unknown", "expected"), [("drop", [0]), ("keep", [0, 1])])
def test_an_operator_decides_what_an_unknown_filter_means(
    spark: SparkSession, unknown: Unknown, expected: list[int]
) -> None:
    records = frame(spark, [(b"k", EU, None), (b"k", BROKEN, None), (b"k", US, None)])
    step = Transform(name="x", topics=("orders",), filter=ONLY_EU.filter, unknown=unknown)
    assert [at for at, _ in values(copies_of(records, rule(step)))] == expected
    assert [row.offset for row in copied(records, rule(step)).collect()] == expected


def test_null_is_allowed_where_an_operator_says_so_and_tombstones_stay(spark: SparkSession) -> None:
    to_null = Transform(
        name="x", topics=("orders",), value=f"cast({JSON} as binary)", nullable=True
    )
    records = frame(spark, [(b"k", EU, None), (b"k", BROKEN, None), (b"k", None, None)])
    assert values(copies_of(records, rule(to_null))) == [(0, b"eu"), (1, None), (2, None)]
    strict = Transform(name="x", topics=("orders",), value=to_null.value)
    assert values(copies_of(records.where("offset != 1"), rule(strict))) == [(0, b"eu"), (2, None)]


CHAINS: list[Chain] = [(ONLY_EU,), (MASK,), (ONLY_EU, MASK), (MASK, ONLY_EU), ()]


@pytest.mark.parametrize("chain", CHAINS, ids=lambda chain: "-".join(one.name for one in chain))
def test_who_compares_sees_what_the_query_writes(spark: SparkSession, chain: Chain) -> None:
    parts = product((None, b"", b"k"), (EU, US), (None, SECRET))
    records = frame(spark, list(parts))
    with_mark = CopyRule(mark="A", not_to="B", chains={"orders": chain} if chain else {})

    written = {row.offset: row for row in copies_of(records, with_mark).collect()}
    compared = {row.offset: row for row in digested_originals(records, with_mark).collect()}

    assert compared.keys() == written.keys()
    for offset, row in written.items():
        headers = tuple((one.key, one.value and bytes(one.value)) for one in row.headers or ())
        key, value = (None if part is None else bytes(part) for part in (row.key, row.value))
        copy = Copy(key, value, headers, row.time_ms)
        assert bytes.fromhex(compared[offset].content) == copy.content
        assert compared[offset].size == copy.size
    dropped = {row.offset for row in tried(records, with_mark.chains).collect() if row[DROPPED]}
    assert dropped == set(range(12)) - written.keys()


def test_json_that_several_expressions_ask_is_parsed_once(spark: SparkSession) -> None:
    order = "from_json(cast(value as string), 'region string, email string')"
    step = Transform(
        name="ask",
        topics=("orders",),
        value=f"cast(concat({order}.region, '/', {order}.email) as binary)",
        headers_add=(("region", f"cast({order}.region as binary)"),),
    )
    other = Transform(name="other", topics=("clicks",), value=f"cast({order}.email as binary)")
    chains = {"orders": (step,), "clicks": (other,)}

    changed = transformed(frame(spark, [(b"k", EU, None), (None, US, None)]), chains)

    plan = changed._jdf.queryExecution().executedPlan().toString()  # noqa: SLF001 - Java's own
    assert plan.count("from_json(") == 2, plan  # once for each topic
    assert values(changed) == [(0, b"eu/a@b.c"), (1, b"us/a@b.c")]
    assert [bytes(row.headers[0].value) for row in changed.collect()] == [b"eu", b"us"]
    assert changed.columns == frame(spark, []).columns


LONG = b'{"note":"' + b"x" * 100_000 + b'"}'
ALTERNATION = r'''"note":"(?:[^"\\\\]|\\\\.)*"'''
LETTERS = b"z" * 50_000
NUMBER = "cast(cast(value as string) as int)"
ASKED = [
    ("sequence", f"size(sequence(0, {NUMBER}))", b"2000000000"),
    ("down", f"size(sequence(cast({NUMBER} as bigint), 0L, -1L))", b"2000000000"),
    ("times", f"size(sequence(date'1970-01-01', timestamp_seconds({NUMBER}), interval 1 second))",
     b"2000000000"),
    ("array-repeat", f"size(array_repeat(value, {NUMBER}))", b"2000000000"),
    ("long-repeat", "array_join(array_repeat(cast(value as string), 5000), '')", LETTERS),
    ("array-insert", f"size(array_insert(array('a'), {NUMBER}, 'b'))", b"2000000000"),
    ("bytes", f"length(lpad(value, {NUMBER}, X'00'))", b"2000000000"),
    ("format", "format_string(cast(value as string), 1)", b"%02000000000d"),
    ("decimals", f"format_number(1.5, {NUMBER})", b"2000000000"),
    ("replace", "length(replace(cast(value as string), 'z', cast(value as string)))", LETTERS),
    ("joined", "length(array_join(array_repeat('', 5000), cast(value as string)))", LETTERS),
    ("with", "length(concat_ws(cast(value as string), array_repeat('', 5000)))", LETTERS),
    ("aggregate", f"length(aggregate(sequence(1, {NUMBER}), 'abc', (made, _) -> made || made))",
     b"0000063"),
    ("transform", "size(transform(sequence(1, length(value)), x -> value || value))", LETTERS),
    ("nested", f"size(flatten(transform(sequence(1, {NUMBER}), x -> sequence(1, {NUMBER}))))",
     b"100000"),
]  # fmt: skip
"""What makes more of a record than there is memory: each asks for two gigabytes, or for far more.
A JVM that runs out of memory once is ended, so that these must not try."""
TEXT = "cast(value as string)"
UP_TO = f"sequence(1, {NUMBER})"
MANY = "sequence(1, 2 * length(value))"
SEEN = "length(value) > 10000000"  # stands for a function that goes through the value
LONG_TIMES = [
    ("calls", f"exists(array({UP_TO}), a -> exists(a, x -> exists(a, y -> y = -x)))", b"100000"),
    ("exists", f"exists({MANY}, x -> {SEEN})", LETTERS),
    ("filter", f"size(filter({MANY}, x -> {SEEN}))", LETTERS),
    ("forall", f"forall({MANY}, x -> not ({SEEN}))", LETTERS),
    ("map", f"size(map_filter(map_from_arrays({MANY}, {MANY}), (k, v) -> {SEEN}))", LETTERS),
    ("each", f"size(transform({MANY}, x -> {SEEN}))", LETTERS),
    ("sort", f"size(array_sort({MANY}, (x, y) -> if({SEEN}, 0, x - y)))", LETTERS),
    ("reduce", f"reduce({MANY}, 0, (made, x) -> made + length(value))", LETTERS),
    ("made", f"length(reduce({MANY}, {TEXT}, (made, _) -> made))", LETTERS),
    ("inner", f"exists(array(split({TEXT}, '')), a -> exists({MANY}, x -> a is null))", LETTERS),
    ("matches", f"exists(sequence(1, 5000), x -> {TEXT} rlike 'zy')", LETTERS),
    ("spelled", "exists(sequence(1, 100000), x -> repeat('z', length(value)) = 'z')", LETTERS),
    ("edits", f"levenshtein({TEXT}, {TEXT})", LETTERS),
    ("distinct", f"size(array_distinct(transform({UP_TO}, x -> array(x))))", b"30000"),
    ("overlap", f"arrays_overlap(transform({UP_TO}, x -> array(x)), array(array(0)))", b"30000"),
]
"""What goes on for minutes or hours, in parts of which none is long."""
THROWING = [
    ("decode", "cast(url_decode(cast(value as string)) as binary)", b"%zz TimeoutException",
     "throws CANNOT_DECODE_URL"),
    ("index", "cast(element_at(array('a'), if(length(value) = 5, 0, 1)) as binary)", b"AV77x",
     "throws INVALID_INDEX_OF_ZERO"),
    ("group", "cast(regexp_replace(cast(value as string), 'price', '$9') as binary)", b"price",
     "throws IndexOutOfBoundsException"),
    ("stack", f"cast(regexp_replace(cast(value as string), r'{ALTERNATION}', '*') as binary)", LONG,
     "throws StackOverflowError"),
    ("back", r"cast(regexp_extract(cast(value as string), r'^(a+)+b\1$') as binary)",
     b"a" * 40 + b"!", "takes too long"),
    ("like", "cast(if(cast(value as string) like '%x%x%x%x%x%y', 'a', 'b') as binary)",
     b"x" * 3000, "takes too long"),
    ("repeat", "cast(repeat(cast(value as string), if(length(value) = 6, 20000000, 1)) as binary)",
     b"poison", "becomes too large"),  # 120 MB; the other record asks for little memory
    *((name, f"cast(cast({expression} as string) as binary)", poison, "becomes too large")
      for name, expression, poison in ASKED),
    *((name, f"cast(cast({expression} as string) as binary)", poison, "takes too long")
      for name, expression, poison in LONG_TIMES),
    ("tried", "cast(try_element_at(split(cast(value as string), 'b+b+b+b+b+c'), 1) as binary)",
     b"b" * 3000, "takes too long"),
]  # fmt: skip


SMALL = [
    "sequence(0, 5)",
    "sequence(5, 0, -2)",
    "sequence(date'2026-01-31', date'2026-05-01', interval 1 month)",
    "sequence(timestamp'2026-01-31 00:00', timestamp'2026-02-01 00:00', interval 7 hours)",
    "sequence(date'2026-01-31', cast(null as date))",
    "array_repeat(value, 3)",
    "array_repeat(7L, cast(null as int))",
    "transform(array(1, null), n -> array_repeat(cast(null as string), n))",
    "array_repeat(5, -2000000000)",
    "array_insert(array('a'), -3, cast(value as string))",
    "array(hex(lpad(value, 12, X'00')), hex(rpad(value, 3, X'00')))",
    "array(format_string('%05d|%1$-8s', 42), format_number(1234.5, 2), format_number(5, '#.#'))",
    "array(replace(cast(value as string), 'e', ''), replace(cast(value as string), ''))",
    "array(array_join(array('a', null), '-'), array_join(array('a', null), '-', '?'))",
    "array(concat_ws('-', array('a', 'b'), cast(null as array<string>), 'c'), concat_ws('-'))",
    "array(aggregate(array(1, 2), '', (made, n) -> made || n), value || cast(null as string))",
    "transform(map_entries(transform_values(map('a', value), (k, v) -> v)), e -> hex(e.value))",
    "zip_with(array(1, 2), array('x'), (n, x) -> struct(n, x))",
    "array(exists(array(1, null), x -> x = 2), forall(array(1, null), x -> x = 1))",
    "filter(array('a', null, 'b'), (x, i) -> x > 'a' or i = 1 or value is null)",
    "map_keys(map_filter(map('a', 1, 'b', null), (k, v) -> v = 1 and k = substring(k, 1, 1)))",
    "array_sort(array('b', null, 'aa'), (x, y) -> coalesce(length(x) - length(y), 1))",
    "array_sort(array(3, null, 1))",
    "transform(headers, h -> struct(h.key, hex(h.value), size(headers)))",
    "transform(array('ab', null), x -> array(levenshtein(x, 'b'), levenshtein(x, 'zzzz', 2)))",
    "array_distinct(array(array(1), array(1), null))",
    "array_union(array(array(1)), array(array(1), array(2), null))",
    "array_except(array(array(1), null), cast(null as array<array<int>>))",
    "arrays_overlap(array(array(1), null), array(array(1)))",
    "transform(sequence(1, 3), x -> aggregate(sequence(x, 3), 0L, (made, y) -> made + y))",
]


@pytest.mark.parametrize("expression", SMALL)
def test_a_function_with_a_bound_makes_what_sparks_makes(
    spark: SparkSession, expression: str
) -> None:
    made = f"cast(to_json(named_struct('made', {expression})) as binary)"
    records = frame(spark, [(b"k", EU, None)])
    (plain,) = records.selectExpr(f"{made} as value").collect()
    step = Transform(name="small", topics=("orders",), value=made)
    assert values(copies_of(records, rule(step))) == [(0, bytes(plain.value))]


def test_a_step_within_the_lambda_of_the_next_begins_no_count_anew(spark: SparkSession) -> None:
    found = f"exists({MANY}, x -> key = X'6B')"
    first = Transform(
        name="first", topics=("orders",), key="cast(upper(cast(key as string)) as binary)"
    )
    then = Transform(
        name="next", topics=("orders",), value=f"cast(cast({found} as string) as binary)"
    )
    records = frame(spark, [(LETTERS, LETTERS, None)])
    with pytest.raises((PySparkException, Py4JJavaError), match="next fails: its value takes too"):
        copies_of(records, rule(first, then)).collect()


@pytest.mark.parametrize(
    ("name", "expression", "poison", "what"), THROWING, ids=[row[0] for row in THROWING]
)
def test_a_record_that_an_expression_cannot_take_is_named_without_its_content(
    spark: SparkSession, name: str, expression: str, poison: bytes, what: str
) -> None:
    step = Transform(name=name, topics=("orders",), value=expression)
    records = frame(spark, [(b"k", b"1", None), (b"k", poison, None), (b"k", None, None)])

    with pytest.raises((PySparkException, Py4JJavaError)) as caught:
        copies_of(records, rule(step)).collect()

    cause = causes_of(caught.value)[-1]
    assert cause.record == (TopicPartition("orders", 3), 1)
    assert cause.text.startswith(f"the transform {name} fails: its value {what} for orders-3 of")
    assert poison.decode() not in str(caught.value)
    told = {row.offset: row[FAILURE] for row in tried(records, {"orders": (step,)}).collect()}
    assert told[1] == cause.text
