"""Explains why Spark failed, and whether trying again can help."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from replication.errors import FlowError, first_line
from replication.flows.replicate.machine_trouble import machine_trouble
from replication.model import Flow, TopicPartition
from replication.offsets.pending import RecordRejection
from replication.spark.interceptor import INTERCEPTOR
from replication.spark.transforms import failed_records

NONE: Final[Mapping[TopicPartition, str]] = MappingProxyType({})
NONE_REJECTED: Final[Mapping[TopicPartition, RecordRejection]] = MappingProxyType({})


class QueryError(FlowError):
    """A generation's query failed.

    Args:
        text: What the operator reads.
        is_final: Whether a restart would fail in the same way.
        is_of_record: Whether it would not without the record that caused it.
        is_denied: Whether a user lacks an ACL.
        rejected: A record that the target rejected, by upstream partition.
        unreadable: What the client said of a record that it cannot read, by upstream partition.
        machine: What the machine lacks that was to read it: the record is not to blame then.
        undecided: Why a transform fails on a record, by upstream partition.

    Attributes:
        is_alone: Whether nothing but single records was tried, so that these are to blame.
    """

    def __init__(
        self,
        text: str,
        *,
        is_final: bool,
        is_of_record: bool = False,
        is_denied: bool = False,
        rejected: Mapping[TopicPartition, RecordRejection] = NONE_REJECTED,
        unreadable: Mapping[TopicPartition, str] = NONE,
        machine: str = "",
        undecided: Mapping[TopicPartition, str] = NONE,
    ) -> None:
        super().__init__(text)
        self.is_final = is_final
        self.is_of_record = is_of_record
        self.is_denied = is_denied
        self.rejected = rejected
        self.unreadable = unreadable
        self.machine = machine
        self.undecided = undecided
        self.is_alone = False


class UnexplainedError(QueryError):
    """A query failed for what nobody knows: an expression of a transform may have thrown."""


@dataclass(frozen=True, slots=True)
class _Pattern:
    """Part of Spark's text, what it means, and whether only an operator can correct it."""

    found: str
    meaning: str
    is_final: bool
    is_of_record: bool = False
    is_denied: bool = False


PATTERNS = (
    _Pattern(
        "RecordTooLargeException",
        "the target rejected a record as too large",
        is_final=True,
        is_of_record=True,
    ),
    _Pattern(
        "InvalidTimestampException",
        "the target rejected a record for its timestamp",
        is_final=True,
        is_of_record=True,
    ),
    _Pattern(
        "InvalidRecordException", "the target rejected a record", is_final=True, is_of_record=True
    ),
    _Pattern(
        "batch which had one more more invalid records",  # Kafka's words for the others
        "the target rejected a record",
        is_final=True,
        is_of_record=True,
    ),
    _Pattern(
        "Received exception when fetching the next record from",
        "the source has a record that Kafka's client cannot read",
        is_final=True,
        is_of_record=True,
    ),
    _Pattern(
        "overflows when converting to Spark's microsecond-precision",
        "a record's timestamp does not fit Spark's type",
        is_final=True,
        is_of_record=True,
    ),
    _Pattern(
        "a second attempt",
        "an executor was lost in mid-batch, and a second attempt of its tasks would have repeated "
        "records",
        is_final=False,
    ),
    _Pattern(
        "ExecutorLostFailure",
        "an executor was lost in mid-batch",
        is_final=False,
    ),
    _Pattern("lost its driver", "an executor lost its driver", is_final=False),
    _Pattern("earlier task are still in flight", "a task was cut short", is_final=False),
    _Pattern(
        "replication: the lease was lost before",  # of OwnerOnly.java
        "this process no longer holds the lease of the flow",
        is_final=False,
    ),
    _Pattern(
        "InvalidTopicException",
        "a record reached the producer without its timestamp: the interceptor's version differs",
        is_final=True,
    ),
    _Pattern(
        INTERCEPTOR,
        "the interceptor class is not on the executors' class path: pass its jar with --jars, or "
        "set record.timestamps=broker",
        is_final=True,
    ),
    _Pattern(
        "TopicAuthorizationException",
        "a cluster denied access to a topic",
        is_final=False,
        is_denied=True,
    ),
    _Pattern("AuthorizationException", "a cluster denied access", is_final=True, is_denied=True),
    _Pattern("AuthenticationException", "a cluster rejected the credentials", is_final=True),
    _Pattern(
        "KAFKA_DATA_LOSS",
        "the source no longer has the next records or their topic",
        is_final=False,
    ),
    _Pattern(
        "UnknownTopicOrPartition",
        "a broker does not know a topic that is replicated: it was deleted, or is new to it",
        is_final=False,
    ),
    _Pattern(
        "not present in metadata",
        "the target did not show a remote topic: it was deleted, or no broker answered",
        is_final=False,
    ),
    _Pattern(
        "no answer where",  # of LogEnds.java, which names the partitions
        "no broker of the source says where partitions end: start those that lead them",
        is_final=False,
    ),
    _Pattern("TimeoutException", "a cluster did not answer in time", is_final=False),
)

_UNREADABLE = re.compile(
    r"Received exception when fetching the next record from (\S+)-(\d+)\. "
    r"(?:.*?Caused by: org\.apache\.kafka\.common\.KafkaException: ([^\n]+))?",
    re.DOTALL,
)
_KAFKA_ERROR = re.compile(r"org\.apache\.kafka\.\S*?(\w+Exception): ([^\n]+)")


def explain(
    flow: Flow,
    error: BaseException,
    rejected: Mapping[TopicPartition, RecordRejection] = NONE_REJECTED,
) -> QueryError:
    """Turns Spark's *error* into one that names the flow, the meaning and Kafka's own words.

    Args:
        flow: That failed.
        error: Of its query.
        rejected: A record that the target rejected, by upstream partition.
    """
    text = str(error).strip() or type(error).__name__
    detail = _kafkas_words(text) or first_line(text)
    unreadable = _unreadable(text)
    if trouble := machine_trouble(text):
        return QueryError(
            f"flow {flow}: {trouble.text}",
            is_final=trouble.is_lasting,
            is_of_record=bool(unreadable),
            unreadable=unreadable,
            machine=trouble.text,
        )
    if undecided := {tp: found.text for tp, found in failed_records(text).items()}:
        return QueryError(
            f"flow {flow}: a record cannot be transformed: {', '.join(undecided.values())}",
            is_final=True,
            is_of_record=True,
            undecided=undecided,
        )
    for pattern in PATTERNS:
        if pattern.found in text:
            return QueryError(
                f"flow {flow}: {pattern.meaning} ({detail})",
                is_final=pattern.is_final,
                is_of_record=pattern.is_of_record,
                is_denied=pattern.is_denied,
                rejected=rejected,
                unreadable=unreadable,
            )
    text = f"flow {flow}: the query failed: {detail}"
    return UnexplainedError(text, is_final=False)


def _kafkas_words(text: str) -> str:
    """Returns Kafka's class and text; its plain exception only says what a client makes of them."""
    found: list[tuple[str, str]] = _KAFKA_ERROR.findall(text)
    found.sort(key=lambda one: one[0] == "KafkaException")
    return ": ".join(found[0]) if found else ""


def _unreadable(text: str) -> dict[TopicPartition, str]:
    return {
        TopicPartition(found[1], int(found[2])): found[3] or "its batch is damaged"
        for found in _UNREADABLE.finditer(text)
    }


@contextmanager
def spark_errors(flow: Flow) -> Iterator[None]:
    """Turns Spark's errors of the block into a `QueryError`.

    Spark's own jobs fail as a query does: a broker restarts, an executor is lost.
    """
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        raise explain(flow, error) from error
