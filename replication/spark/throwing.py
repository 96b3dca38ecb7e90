"""Finds the record on which evaluating an expression throws, by trying windows.

Most of Spark's functions give NULL where ANSI is off. A few throw, and do not say on which record.
"""

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from replication.errors import first_line
from replication.model import TopicPartition
from replication.spark.counting import Windows


@dataclass(frozen=True, slots=True)
class ThrowingRecord:
    """The first record of a window that throws, and what Spark says."""

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
    """
    found = {}
    for tp, (start, until) in windows.items():
        low, high, text = start, until, _failure(read, evaluate, {tp: (start, until)})
        while text and high - low > 1:
            middle = (low + high) // 2
            if said := _failure(read, evaluate, {tp: (low, middle)}):
                text, high = said, middle
            else:
                low = middle
        # what failed before may have been a moment's trouble, which no record is to blame for
        if text and (said := _failure(read, evaluate, {tp: (low, low + 1)})):
            read({tp: (low, low + 1)}).count()
            found[tp] = ThrowingRecord(low, said)
    return found


def _failure(
    read: Callable[[Windows], DataFrame],
    evaluate: Callable[[DataFrame], DataFrame],
    windows: Windows,
) -> str:
    try:
        evaluate(read(windows)).collect()
    except PySparkException as error:
        return first_line(str(error))
    return ""
