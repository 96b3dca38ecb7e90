"""What Spark says of a flow's transforms before they change a record. No I/O but one session.

A start compares records by evaluating a transform again, row by row. So an expression must see one
record and give the same each time. Spark's flag ``deterministic`` does not say that: it is true of
the present time, and of an encryption whose salt is random. So names are looked at as well.
"""

from collections.abc import Iterator
from typing import Final

from py4j.java_gateway import JavaObject
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType

from replication.config.sql_text import UNSTEADY, is_time_of_day, sql_problems, unsteady
from replication.errors import first_line
from replication.model import Chain, Transform
from replication.spark.transforms import HEADERS

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
    """Returns the same of all transforms of *chain*."""
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
        yield from _type_problems(part, evaluated.schema[0].dataType)


def _type_problems(part: str, found: DataType) -> Iterator[str]:
    wanted, given = _TYPES.get(part, "binary"), found.simpleString()
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
