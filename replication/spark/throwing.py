"""Finds the record on which evaluating an expression throws, by trying windows.

Most of Spark's functions give NULL where ANSI is off. A few throw, and do not say on which record.
Where our jar guards the expressions of transforms they never do; this is for sessions without it.
"""

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import DataFrame

from replication.model import TopicPartition
from replication.spark.causes import SPARK_ERRORS, said
from replication.spark.counting import Windows


@dataclass(frozen=True, slots=True)
class ThrowingRecord:
    """The first record of a window that throws, and what may be shown of that."""

    offset: int
    text: str


def throwing_records(
    read: Callable[[Windows], DataFrame],
    evaluate: Callable[[DataFrame], DataFrame],
    windows: Windows,
) -> dict[TopicPartition, ThrowingRecord]:
    """Returns the first record of each window that throws; absent where none does.

    Args:
        read: Reads windows, without evaluating anything.
        evaluate: Evaluates the expressions on what was read.
        windows: None of them empty.

    Raises:
        PySparkException: The records cannot be read, whatever is evaluated.
        Py4JJavaError: The same.
    """
    found = {}
    for tp, (start, until) in windows.items():
        low, high, text = start, until, _failure(read, evaluate, {tp: (start, until)})
        while text and high - low > 1:
            middle = (low + high) // 2
            if thrown := _failure(read, evaluate, {tp: (low, middle)}):
                text, high = thrown, middle
            else:
                low = middle
        # what failed before may have been a moment's trouble, which no record is to blame for
        if text and (thrown := _failure(read, evaluate, {tp: (low, low + 1)})):
            read({tp: (low, low + 1)}).count()
            found[tp] = ThrowingRecord(low, thrown)
    return found


def _failure(
    read: Callable[[Windows], DataFrame],
    evaluate: Callable[[DataFrame], DataFrame],
    windows: Windows,
) -> str:
    try:
        evaluate(read(windows)).collect()
    except SPARK_ERRORS as error:
        return said(error)
    return ""
