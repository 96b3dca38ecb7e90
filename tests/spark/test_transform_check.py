"""What Spark says of an expression before it changes a record."""

import pytest
from pyspark.sql import SparkSession

from replication.model import Transform
from replication.spark.transform_check import transform_problems

pytestmark = pytest.mark.spark


def problems(spark: SparkSession, part: str, text: str) -> list[str]:
    """The problems of the expression *text* as that *part* of a transform."""
    given = {"headers_add": (("h", text),)} if part == "header" else {part: text}
    transform = Transform(name="x", topics=("t",), **given)
    return [problem for _, problem in transform_problems(spark, transform)]


@pytest.mark.parametrize(
    ("part", "text", "expected"),
    [
        ("filter", "value", "is of type binary, and not boolean; write for example cast("),
        ("value", "cast(value as string)", "is of type string, and not binary; write for example"),
        ("value", "null", "is of type void, and not binary"),
        ("key", "offset", "is of type bigint, and not binary"),
        ("headers", "array(struct('a' as name, value))", "is of type array<struct<name:string"),
        ("header", "topic", "is of type string, and not binary"),
        ("value", "nobody", "Spark does not take it: [UNRESOLVED_COLUMN"),
        ("value", "timestampType", "Spark does not take it: [UNRESOLVED_COLUMN"),
        ("value", "no_function(value)", "Spark does not take it: [UNRESOLVED_ROUTINE"),
        ("value", "value value value", "Spark does not take it: [PARSE_SYNTAX_ERROR"),
        ("filter", "value IS NULL AND", "Spark takes its last word for a name"),
        ("filter", "value IS NULL oops", "Spark takes its last word for a name"),
        ("value", "value AS key", "Spark takes its last word for a name"),
        ("value", "*", "gives several columns"),
        ("filter", "count(value) > 1", "needs Aggregate; an expression sees one record"),
        ("filter", "row_number() over (order by offset) > 1", "needs Window"),
        ("value", "explode(headers).value", "Spark does not take it"),
        ("headers", "explode(array(headers))", "needs Generate"),
        ("filter", "exists(headers, h -> rand() > 0.5)", "calls rand"),
        ("filter", "(select true)", "is a subquery"),
        ("filter", "timestamp > now()", "calls now"),
        ("filter", "user = cast(key as string)", "calls"),
        ("filter", "timestamp > cast('today' as timestamp)", "calls 'today'"),
        ("filter", "timestamp > to_timestamp('yesterday')", "calls 'yesterday'"),
        ("value", "aes_encrypt(value, 'abcdefghijklmnop')", "calls aes_encrypt without an IV"),
        ("value", "aes_encrypt(value, 'abcdefghijklmnop', 'GCM')", "calls aes_encrypt without"),
        ("value", "cast(version() as binary)", "calls version"),
        ("value", "cast(uuid() as binary)", "calls uuid"),
        ("value", "cast(input_file_name() as binary)", "calls input_file_name"),
    ],
)
def test_what_is_refused(spark: SparkSession, part: str, text: str, expected: str) -> None:
    found = problems(spark, part, text)
    assert [problem for problem in found if problem.startswith(expected)], found


@pytest.mark.parametrize(
    ("part", "text"),
    [
        ("filter", "get_json_object(cast(value as string), '$.region') = 'eu'"),
        ("filter", "exists(headers, h -> h.key = 'x' and h.value = binary('y'))"),
        ("filter", "crc32(key) % 100 = 0"),
        ("filter", "timestamp > timestamp '2026-01-01'"),
        ("filter", "timestamp > to_timestamp('2026-01-01')"),
        ("filter", "unix_timestamp(cast(value as string), 'yyyy') > 0"),
        ("value", "binary(sha2(value, 256))"),
        ("value", "aes_encrypt(value, 'abcdefghijklmnop', 'ECB')"),
        ("value", "aes_encrypt(value, 'abcdefghijklmnop', 'CBC', 'DEFAULT', '1234567890123456')"),
        ("value", "binary(to_json(from_json(cast(value as string), 'a int, now string')))"),
        ("headers", "filter(headers, h -> h.key != 'x')"),
        ("headers", "array(struct('a' as key, value as value))"),
        ("header", "binary(concat(topic, '-', partition, '-', offset))"),
    ],
)
def test_what_is_taken(spark: SparkSession, part: str, text: str) -> None:
    assert problems(spark, part, text) == []


def test_functions_that_are_not_sparks_own_are_refused(spark: SparkSession) -> None:
    spark.udf.register("own_python", lambda value: value, "binary")
    assert problems(spark, "value", "own_python(value)")


def test_the_text_of_a_secret_is_not_quoted(
    spark: SparkSession, capfd: pytest.CaptureFixture[str]
) -> None:
    hidden = Transform(name="x", topics=("t",), value="sha2(salt_xyz, value)", hidden=True)
    found = list(transform_problems(spark, hidden))
    assert found
    assert "salt_xyz" not in str(found)
    assert "salt_xyz" not in "".join(capfd.readouterr()), "PySpark has a log of its own"
