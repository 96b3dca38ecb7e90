"""What Spark says of a flow's transforms, and what they make of some records."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal

from py4j.java_gateway import JavaObject
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from replication.config.transforms import UNSTEADY, is_time_of_day, sql_problems, unsteady
from replication.errors import first_line
from replication.model import Chain, TopicPartition, Transform
from replication.spark.causes import SPARK_ERRORS, said
from replication.spark.copies import DROPPED, FAILURE, HEADERS, tried
from replication.spark.counting import read_windows

COLUMNS: Final = (
    "CAST(NULL AS binary) AS key",
    "CAST(NULL AS binary) AS value",
    "CAST(NULL AS array<struct<key:string,value:binary>>) AS headers",
    "CAST(NULL AS string) AS topic",
    "CAST(NULL AS int) AS partition",
    "CAST(NULL AS bigint) AS offset",
    "CAST(NULL AS timestamp) AS timestamp",
)
"""What an expression sees."""

_TYPES: Final = {"filter": "boolean", "key": "binary", "value": "binary", "headers": HEADERS}
_OWN: Final = ("UDF", "UDAF", "HiveSimple", "HiveGeneric", "ApplyFunction", "Invoke")
"""Parts of the names of Spark's classes for functions that are not its own."""
_SUBQUERIES: Final = ("ScalarSubquery", "Exists", "ListQuery", "InSubquery")
_NAMED: Final = ("Alias", "MultiAlias")
_TIMES: Final = ("date", "timestamp", "timestamp_ntz")


def transform_problems(spark: SparkSession, transform: Transform) -> Iterator[tuple[str, str]]:
    """Yields what is wrong with *transform*: the end of the key, and the problem."""
    frame = spark.range(1).selectExpr(*COLUMNS)
    for part, text in transform.expressions.items():
        for problem in _expression_problems(frame, part, text, hidden=transform.hidden):
            yield part, problem


def chain_problems(spark: SparkSession, chain: Chain) -> list[tuple[str, str]]:
    """Returns what is wrong with the transforms of *chain*, as `transform_problems` does."""
    return [found for one in chain for found in transform_problems(spark, one)]


def _expression_problems(frame: DataFrame, part: str, text: str, *, hidden: bool) -> Iterator[str]:
    if problems := sql_problems(text):
        yield from problems
        return
    try:
        evaluated = frame.select(F.expr(text))
    except PySparkException as error:
        said = error.getCondition() if hidden else first_line(str(error))
        yield f"Spark does not take it: {said}"
        return
    if _has_name(frame, text):
        yield "Spark takes its last word for a name of the result; complete the expression"
    yield from dict.fromkeys(_plan_problems(frame, evaluated))
    if len(evaluated.schema) == 1:
        wanted, given = _TYPES.get(part, "binary"), evaluated.schema[0].dataType.simpleString()
        if given != wanted:
            yield f"is of type {given}, and not {wanted}; write for example cast(... as {wanted})"


def _plan_problems(frame: DataFrame, evaluated: DataFrame) -> Iterator[str]:
    """Yields why the plan of *evaluated* is not one projection of *frame*, the same each time."""
    plan, source = _analyzed(evaluated), _analyzed(frame)
    if len(evaluated.schema) != 1:
        yield "gives several columns; write one expression"
    nodes, known = list(_walk(plan)), list(_walk(source))
    if plan.nodeName() != "Project" or len(nodes) != len(known) + 1:
        more = sorted({node.nodeName() for node in nodes[: len(nodes) - len(known)]} - {"Project"})
        yield f"needs {', '.join(more) or 'another step'}; an expression sees one record"
        return
    expressions = plan.expressions()
    for at in range(expressions.size()):
        expression = expressions.apply(at)
        found = list(_walk(expression))
        names = [node.getClass().getSimpleName() for node in found]
        if any(own in name for own in _OWN for name in names):
            yield "calls a function that is not Spark's own: nothing says what that does"
        if any(name in _SUBQUERIES for name in names):
            yield "has a subquery; an expression sees one record"
        for node, name in zip(found, names, strict=True):
            yield from _node_problems(node, name)
        if not expression.deterministic():
            yield "is not deterministic: it must give the same for the same record each time"


def _node_problems(node: JavaObject, name: str) -> Iterator[str]:
    called = node.prettyName()
    if called in UNSTEADY:
        yield unsteady(called)
    elif name == "AesEncrypt" and not _has_fixed_salt(node):
        yield "calls aes_encrypt without an IV, which takes another one each time; give it one"
    elif name != "Literal" and node.dataType().typeName() in _TIMES:
        children = _children(node)
        texts = [str(one.sql()) for one in children if one.getClass().getSimpleName() == "Literal"]
        yield from (unsteady(text) for text in texts if is_time_of_day(text.strip("'")))


def _has_fixed_salt(node: JavaObject) -> bool:
    """Returns whether an ``aes_encrypt`` has an IV, or the mode ECB, which takes none."""
    texts = [str(one.sql()) for one in _children(node)]
    mode, iv = texts[2].strip("'").upper(), texts[4]
    return mode == "ECB" or iv not in ("''", "X''", "NULL", "CAST('' AS BINARY)")


def _has_name(frame: DataFrame, text: str) -> bool:
    """Returns whether *text* ends in a name: ``value IS NULL AND`` is no error for Spark."""
    session = frame.sparkSession._jsparkSession  # noqa: SLF001 - its parser has no other door
    parsed = session.sessionState().sqlParser().parseExpression(text)
    return bool(parsed.getClass().getSimpleName() in _NAMED)


def _analyzed(frame: DataFrame) -> JavaObject:
    return frame._jdf.queryExecution().analyzed()  # noqa: SLF001 - a plan has no other door


def _walk(node: JavaObject) -> Iterator[JavaObject]:
    yield node
    for child in _children(node):
        yield from _walk(child)


def _children(node: JavaObject) -> list[JavaObject]:
    children = node.children()
    return [children.apply(at) for at in range(children.size())]


# What transforms make of some records, to be shown. Reads them twice, in two analysed queries.
#
# Within one query ``now`` and ``uuid`` do not change, so that only a second one finds that the
# same record becomes another.

SHOWN_BYTES: Final = 10_000
"""How much of a key, a value or a header is taken out of Spark."""

SHOWN_HEADERS: Final = 100
MOST_FAILURES: Final = 20
"""After so many records that Spark fails on, the others are not tried one by one."""

PARTS: Final = ("key", "value", "headers")
_PLACE: Final = ("topic", "partition", "offset")

Outcome = Literal["same", "changed", "dropped", "error"]
Headers = tuple[tuple[str, bytes | None], ...]
Windows = Mapping[TopicPartition, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class ShownRecord:
    """What is shown of a record: the first `SHOWN_BYTES` of each part, and its whole size."""

    key: bytes | None
    value: bytes | None
    headers: Headers
    bytes: int


@dataclass(frozen=True, slots=True)
class Sampled:
    """One record, and what the transforms make of it.

    Args:
        partition: Where it is.
        offset: Where it is.
        before: What it is on the source.
        after: What its copy is; None if there is none.
        outcome: What becomes of it.
        error: Why there is no copy, though it is not dropped.
        differing: The parts that two evaluations made differently.
    """

    partition: TopicPartition
    offset: int
    before: ShownRecord
    after: ShownRecord | None
    outcome: Outcome
    error: str = ""
    differing: tuple[str, ...] = ()


def sample(
    spark: SparkSession, consumer: Mapping[str, str], windows: Windows, chains: Mapping[str, Chain]
) -> list[Sampled]:
    """Returns what *chains* make of the records in *windows*, in their order.

    A record that Spark fails on is an error as one whose filter is NULL is.

    Raises:
        PySparkException: The source cannot be read, or Spark fails on too many records.
    """
    if not windows:
        return []
    failed: list[tuple[TopicPartition, int]] = []
    found = list(_tried(spark, consumer, dict(windows), chains, failed))
    return sorted(found, key=lambda one: (one.partition, one.offset))


def _tried(
    spark: SparkSession,
    consumer: Mapping[str, str],
    windows: dict[TopicPartition, tuple[int, int]],
    chains: Mapping[str, Chain],
    failed: list[tuple[TopicPartition, int]],
) -> Iterator[Sampled]:
    """Yields what becomes of the records in *windows*, by halves where Spark fails on some."""
    try:
        records = read_windows(spark, consumer, windows)
        shown = _evaluated(records, chains).collect()
        again = {_place(row): row for row in _evaluated(records, chains).collect()}
        for row in shown:
            yield _sampled(row, again.get(_place(row), row))
    except SPARK_ERRORS as error:
        offsets = sum(until - start for start, until in windows.values())
        if len(failed) >= MOST_FAILURES or not any(chains.values()):
            raise
        if offsets > 1:
            for half in _halves(windows):
                yield from _tried(spark, consumer, half, chains, failed)
            return
        failed.extend((tp, start) for tp, (start, _) in windows.items())
        for one in _tried(spark, consumer, windows, {}, failed):
            text = f"Spark fails on it: {said(error)}"
            yield replace(one, after=None, outcome="error", error=text)


def _halves(
    windows: dict[TopicPartition, tuple[int, int]],
) -> Iterator[dict[TopicPartition, tuple[int, int]]]:
    """Yields two parts of *windows*, of more than one offset together."""
    if len(windows) > 1:
        parts = sorted(windows.items())
        middle = len(parts) // 2
        yield dict(parts[:middle])
        yield dict(parts[middle:])
        return
    for tp, (start, until) in windows.items():
        middle = (start + until) // 2
        yield {tp: (start, middle)}
        yield {tp: (middle, until)}


def _evaluated(records: DataFrame, chains: Mapping[str, Chain]) -> DataFrame:
    """Returns what is shown of each record, before and after, and hashes of what is compared."""
    before = {f"_before_{name}": column for name, column in _shown().items()}
    hashes = {f"_before_{part}_hash": _hash(part) for part in PARTS}
    done = tried(records.withColumns({**before, **hashes}), chains)
    after = {f"_after_{name}": column for name, column in _shown().items()}
    new_hashes = {f"_after_{part}_hash": _hash(part) for part in PARTS}
    kept = (*_PLACE, *before, *hashes, DROPPED, FAILURE)
    made = (column.alias(name) for name, column in {**after, **new_hashes}.items())
    return done.select(*kept, *made)


def _shown() -> dict[str, Column]:
    headers = F.coalesce(F.col("headers"), F.array().cast(HEADERS))
    size = F.aggregate(
        headers,
        F.lit(0),
        lambda total, header: (
            total + F.length(header["key"]) + F.coalesce(F.length(header["value"]), F.lit(0))
        ),
    )
    parts = [F.coalesce(F.length(part), F.lit(0)) for part in ("key", "value")]
    return {
        "key": F.substring("key", 1, SHOWN_BYTES),
        "value": F.substring("value", 1, SHOWN_BYTES),
        "headers": F.transform(
            F.slice(headers, 1, SHOWN_HEADERS),
            lambda header: F.struct(
                header["key"].alias("key"),
                F.substring(header["value"], 1, SHOWN_BYTES).alias("value"),
            ),
        ),
        "bytes": parts[0] + parts[1] + size,
    }


def _hash(part: str) -> Column:
    """Returns a hash of *part* in which nothing and null differ; no headers are one of both."""
    if part == "headers":
        return F.sha2(F.to_json(F.coalesce(F.col(part), F.array().cast(HEADERS))), 256)
    return F.coalesce(F.sha2(F.col(part), 256), F.lit("null"))


def _place(row: Row) -> tuple[str, int, int]:
    return row.topic, row.partition, row.offset


def _sampled(row: Row, again: Row) -> Sampled:
    changed = _differing(row, row, "_before_", "_after_")
    failure = row[FAILURE]
    outcome: Outcome = "error" if failure else "dropped" if row[DROPPED] else "same"
    is_copied = outcome == "same"
    differing = _differing(row, again, "_after_", "_after_") if is_copied else ()
    if (row[DROPPED], failure) != (again[DROPPED], again[FAILURE]):
        differing = ("filter", *differing)
    return Sampled(
        TopicPartition(row.topic, row.partition),
        row.offset,
        _content(row, "_before_"),
        _content(row, "_after_") if is_copied else None,
        "changed" if is_copied and changed else outcome,
        failure or "",
        differing,
    )


def _differing(one: Row, other: Row, prefix: str, other_prefix: str) -> tuple[str, ...]:
    return tuple(
        part for part in PARTS if one[f"{prefix}{part}_hash"] != other[f"{other_prefix}{part}_hash"]
    )


def _content(row: Row, prefix: str) -> ShownRecord:
    key, value = row[f"{prefix}key"], row[f"{prefix}value"]
    headers = tuple(
        (header.key, None if header.value is None else bytes(header.value))
        for header in row[f"{prefix}headers"]
    )
    return ShownRecord(
        None if key is None else bytes(key),
        None if value is None else bytes(value),
        headers,
        row[f"{prefix}bytes"],
    )
