"""What Java threw, by classes and Spark's conditions. A text may hold what a record holds."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql.streaming.query import StreamingQuery

from replication.java import JVM_GONE
from replication.model import TopicPartition

SPARK_ERRORS: Final = (PySparkException, Py4JJavaError)
"""What a job of Spark's fails with: the latter where a task's exception is none of Spark's own."""


FAILURE: Final = "replication.transform.TransformFailure"
_MOST: Final = 20
"""Causes of causes."""


@dataclass(frozen=True, slots=True)
class Cause:
    """One of the exceptions that led to another.

    Args:
        classes: The names of its class and of those above it, its own first.
        text: What it says; not to be shown unless its class says nothing of records.
        condition: Spark's, if it has one.
        record: Partition and offset of the record that a transform fails on.
    """

    classes: tuple[str, ...]
    text: str = ""
    condition: str = ""
    record: tuple[TopicPartition, int] | None = None

    @property
    def name(self) -> str:
        """The class without its package."""
        return self.classes[0].rpartition(".")[2].rpartition("$")[2]

    @property
    def shown(self) -> str:
        """What may be shown of it, whatever a record holds."""
        if self.record:
            return self.text
        if self.is_silent:
            return self.condition or self.name
        return f"{self.name}: {self.text}" if self.text else self.name

    @property
    def is_silent(self) -> bool:
        """Whether its text may have been made of a record: Kafka's, Java's I/O's, ours is not."""
        safe = ("org.apache.kafka.", "replication.", "java.io.", "java.nio.", "java.net.")
        return not self.classes[0].startswith(safe)


def error_of(query: StreamingQuery) -> StreamingQueryException | None:
    """Returns what ended *query*, with Java's exception, which PySpark keeps of few classes."""
    error = query.exception()
    if error is not None:
        error._origin = query._jsq.exception().get()  # type: ignore[attr-defined]  # noqa: SLF001
    return error


def causes_of(error: BaseException) -> tuple[Cause, ...]:
    """Returns what *error*, of py4j or Spark, comes from, outermost first; nothing if unknown."""
    try:
        return tuple(_causes(_thrown(error)))
    except JVM_GONE:
        return ()


def said(error: BaseException) -> str:
    """Returns what may be shown of *error*: that of its innermost cause."""
    found = causes_of(error)
    return found[-1].shown if found else type(error).__name__


def _thrown(error: BaseException | None) -> JavaObject | None:
    """Returns Java's exception: that of a query's end is known by its cause only."""
    while error is not None:
        for name in ("java_exception", "_origin"):
            if (thrown := getattr(error, name, None)) is not None:
                return thrown
        error = getattr(error, "_cause", None)
    return None


def _causes(thrown: JavaObject | None) -> Iterator[Cause]:
    for _ in range(_MOST):
        if thrown is None:
            return
        classes = tuple(class_names(thrown.getClass()))
        record = None
        if classes[0] == FAILURE:
            record = TopicPartition(thrown.topic(), thrown.partition()), int(thrown.offset())
        yield Cause(classes, str(thrown.getMessage() or ""), _condition(thrown), record)
        thrown = thrown.getCause()


def class_names(of: Any) -> Iterator[str]:  # noqa: ANN401 - a class of Java's
    """Yields the name of a class, and those of all classes above it."""
    while of is not None:
        yield str(of.getName())
        of = of.getSuperclass()


def _condition(thrown: JavaObject) -> str:
    try:
        return str(thrown.getCondition() or "")
    except Py4JError:  # it is no SparkThrowable
        return ""
