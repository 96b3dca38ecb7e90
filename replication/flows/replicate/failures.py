"""Explains why Spark failed, and whether trying again can help."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from replication.errors import FlowError, first_line
from replication.model import Flow, TopicPartition
from replication.offsets.pending import RecordRejection
from replication.spark.causes import Cause, causes_of
from replication.spark.kafka_options import INTERCEPTOR
from replication.topics.topic_plan import TopicPlan

# What a machine lacked when a query failed there, and the next step.
#
# Whatever Kafka's client meets while it reads a record, it calls an exception of that record. So
# what says that the machine is to blame is looked for first: the records are sound then.


@dataclass(frozen=True, slots=True)
class MachineTrouble:
    """What a process met, with the next step, and whether another attempt there meets it again."""

    text: str
    is_lasting: bool


_NATIVE: Final = frozenset({"java.lang.UnsatisfiedLinkError", "org.xerial.snappy.SnappyError"})
_CLASS: Final = frozenset({"java.lang.LinkageError", "java.lang.ReflectiveOperationException"})
"""What a class that cannot be loaded, or does not fit the others, is one of."""

_TASK: Final = re.compile(r"\(TID \d+\) \((\S+) executor ")

NATIVE_STEP: Final = (
    "zstd and snappy unpack a native library into the folder of java.io.tmpdir: let it be writable "
    "there and mounted without noexec, or name another one in Spark's Java options with "
    "-Djava.io.tmpdir=FOLDER, and start the job again"
)
CLASS_STEP: Final = (
    "a class cannot be loaded there: pass its jar, in the version that the others need, with "
    "--jars or CLIENT_JARS, and start the job again"
)
PASSING: Final[Mapping[str, str]] = MappingProxyType(
    {
        "java.lang.OutOfMemoryError": (
            "give it more memory with DRIVER_MEMORY or spark.executor.memory"
        ),
        "Too many open files": (
            "raise its limit of open files with ulimit -n, in a systemd unit with LimitNOFILE="
        ),
        "No space left on device": "free space there, also in the folder of java.io.tmpdir",
        "Disk quota exceeded": "free space there, also in the folder of java.io.tmpdir",
        "Read-only file system": "let the folders of java.io.tmpdir and state.dir be writable",
    }
)
"""What may be over at the next attempt, and the next step."""


def machine_trouble(causes: Sequence[Cause]) -> MachineTrouble | None:
    """Returns what a machine lacked, if one of *causes* is that."""
    if any(_CLASS & {*cause.classes} and cause.text == INTERCEPTOR for cause in causes):
        return None  # a jar of ours: `failures` knows more
    tasks = (_TASK.search(cause.text) for cause in causes)  # Spark's text begins with it
    where = next((f"Spark's process on {task[1]}" for task in tasks if task), "Spark's process")
    for cause in causes:
        words = cause.text if cause.classes[0].startswith(("java.io.", "java.nio.")) else ""
        for known, step in PASSING.items():
            # the operating system's errors have no class in Java, but a text
            if known in cause.classes or (" " in known and known in words):
                return MachineTrouble(f"{where} met: {known}; {step}", is_lasting=False)
        met = first_line(f"{cause.classes[0]}: {cause.text}")
        if cause.classes[0] in _NATIVE:
            return MachineTrouble(f"{where} met: {met}; {NATIVE_STEP}", is_lasting=True)
        if not _CLASS.isdisjoint(cause.classes):
            # it was the first attempt to load the class that said more
            step = NATIVE_STEP if cause.text.startswith("Could not initialize") else CLASS_STEP
            return MachineTrouble(f"{where} met: {met}; {step}", is_lasting=True)
    return None


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


def blamed_part(error: QueryError, plan: TopicPlan) -> TopicPlan:
    """Returns *plan* for the topics one of whose records may be to blame; empty if any may be."""
    if error.machine:
        blamed = set[str]()
    elif isinstance(error, UnexplainedError):
        blamed = {*plan.transforms}
    else:
        named = (*error.rejected, *error.unreadable, *error.undecided)
        blamed = {tp.topic for tp in named}
    return plan.without(plan.topics.keys() - blamed)


@dataclass(frozen=True, slots=True)
class _Pattern:
    """A class of Java's or a condition of Spark's, what it means, and who can correct it.

    Args:
        found: The whole name of a class, or of one above it; or how a condition begins.
        meaning: What an operator reads.
        is_final: Whether only an operator can correct it.
        is_of_record: Whether one record is to blame.
        is_denied: Whether a user lacks an ACL.
        words: What the class also says, where Kafka or our interceptor has one class for several.
    """

    found: str
    meaning: str
    is_final: bool
    is_of_record: bool = False
    is_denied: bool = False
    words: str = ""

    def fits(self, cause: Cause) -> bool:
        is_found = self.found in cause.classes or cause.condition.startswith(self.found)
        return is_found and self.words in cause.text


_KAFKA: Final = "org.apache.kafka.common."
_REJECTED: Final = (
    _Pattern(
        f"{_KAFKA}errors.RecordTooLargeException",
        "the target rejected a record as too large",
        is_final=True,
        is_of_record=True,
    ),
    _Pattern(
        f"{_KAFKA}errors.InvalidTimestampException",
        "the target rejected a record for its timestamp",
        is_final=True,
        is_of_record=True,
    ),
    _Pattern(
        f"{_KAFKA}InvalidRecordException",
        "the target rejected a record",
        is_final=True,
        is_of_record=True,
    ),
)
PATTERNS: Final = (
    *_REJECTED,
    _Pattern(
        f"{_KAFKA}KafkaException",
        "the target rejected a record",
        is_final=True,
        is_of_record=True,
        words="batch which had one more more invalid records",  # Kafka's words for the others
    ),
    _Pattern(
        f"{_KAFKA}KafkaException",
        "the source has a record that Kafka's client cannot read",
        is_final=True,
        is_of_record=True,
        words="Received exception when fetching the next record from",
    ),
    _Pattern(
        "java.lang.ArithmeticException",
        "a record's timestamp does not fit Spark's type",
        is_final=True,
        is_of_record=True,
    ),
    _Pattern(
        f"{_KAFKA}errors.InvalidTopicException",
        "an executor was lost in mid-batch, and a second attempt of its tasks would have repeated "
        "records",
        is_final=False,
        words="replication: a second attempt",
    ),
    _Pattern(
        "replication.producer.SecondAttempt",
        "an executor was lost in mid-batch, and a second attempt of its tasks would have repeated "
        "records",
        is_final=False,
    ),
    _Pattern(
        f"{_KAFKA}errors.InvalidTopicException",
        "an executor lost its driver",
        is_final=False,
        words="replication: this executor has lost its driver",
    ),
    _Pattern(
        f"{_KAFKA}errors.InvalidTopicException",
        "a task was cut short",
        is_final=False,
        words="replication: records of an earlier task are still in flight",
    ),
    _Pattern(
        f"{_KAFKA}errors.InvalidTopicException",
        "this process no longer holds the lease of the flow",
        is_final=False,
        words="replication: the lease was lost before",  # of OwnerOnly.java
    ),
    _Pattern(
        f"{_KAFKA}errors.InvalidTopicException",
        "a record reached the producer without its timestamp: the interceptor's version differs",
        is_final=True,
    ),
    _Pattern(
        "java.lang.ClassNotFoundException",
        "the interceptor class is not on the executors' class path: pass its jar with --jars, or "
        "set record.timestamps=broker",
        is_final=True,
        words=INTERCEPTOR,
    ),
    _Pattern(
        f"{_KAFKA}errors.TopicAuthorizationException",
        "a cluster denied access to a topic",
        is_final=False,
        is_denied=True,
    ),
    _Pattern(
        f"{_KAFKA}errors.AuthorizationException",
        "a cluster denied access",
        is_final=True,
        is_denied=True,
    ),
    _Pattern(
        f"{_KAFKA}errors.AuthenticationException",
        "a cluster rejected the credentials",
        is_final=True,
    ),
    _Pattern(
        "KAFKA_DATA_LOSS",
        "the source no longer has the next records or their topic",
        is_final=False,
    ),
    _Pattern(
        "replication.source.DataLoss",
        "the source no longer has the next records or their topic",
        is_final=False,
    ),
    _Pattern(
        f"{_KAFKA}errors.UnknownTopicOrPartitionException",
        "a broker does not know a topic that is replicated: it was deleted, or is new to it",
        is_final=False,
    ),
    _Pattern(
        f"{_KAFKA}errors.TimeoutException",
        "the target did not show a remote topic: it was deleted, or no broker answered",
        is_final=False,
        words="not present in metadata",
    ),
    _Pattern(
        "replication.source.OtherCluster",
        "the source's clients came to another cluster, and read nothing there",
        is_final=False,
    ),
    _Pattern(
        "replication.source.UnknownEnds",  # which names the partitions
        "no broker of the source says where partitions end: start those that lead them",
        is_final=False,
    ),
    _Pattern(
        f"{_KAFKA}errors.TimeoutException", "a cluster did not answer in time", is_final=False
    ),
)

_UNREADABLE: Final = re.compile(
    r"Received exception when fetching the next record from (\S+)-(\d+)\. "
)


def explain(
    flow: Flow,
    error: BaseException,
    rejected: Mapping[TopicPartition, RecordRejection] = NONE_REJECTED,
) -> QueryError:
    """Turns Spark's *error* into one that names the flow, the meaning and Kafka's own words.

    No text decides that may have the content of a record in it.
    """
    made = explained(flow, causes_of(error), type(error).__name__, rejected)
    made.__cause__ = error
    return made


def decisive(errors: Sequence[QueryError]) -> QueryError:
    """Returns which of *errors* is the cause: a query may only have met what another left."""
    return min(errors, key=lambda one: isinstance(one, UnexplainedError))


def explained(
    flow: Flow,
    causes: Sequence[Cause],
    name: str,
    rejected: Mapping[TopicPartition, RecordRejection] = NONE_REJECTED,
) -> QueryError:
    """Returns the same of an exception *name* of Python's that has these *causes* in Java."""
    detail = _detail(causes) or name
    unreadable = {}
    # Kafka's client says it of a partition; its exception has no field for that
    for cause, below in zip(causes, (*causes[1:], None), strict=False):
        is_kafkas = cause.classes[0] == f"{_KAFKA}KafkaException"
        if is_kafkas and (named := _UNREADABLE.match(cause.text)):
            is_said = below is not None and below.classes[0].startswith(_KAFKA)
            text = first_line(below.text) if below and is_said else "its batch is damaged"
            unreadable[TopicPartition(named[1], int(named[2]))] = text
    if trouble := machine_trouble(causes):
        return QueryError(
            f"flow {flow}: {trouble.text}",
            is_final=trouble.is_lasting,
            is_of_record=bool(unreadable),
            unreadable=unreadable,
            machine=trouble.text,
        )
    if undecided := {cause.record[0]: cause.text for cause in causes if cause.record}:
        return QueryError(
            f"flow {flow}: a record cannot be transformed: {', '.join(undecided.values())}",
            is_final=True,
            is_of_record=True,
            undecided=undecided,
        )
    for pattern in PATTERNS:
        if any(pattern.fits(cause) for cause in causes):
            return QueryError(
                f"flow {flow}: {pattern.meaning} ({detail})",
                is_final=pattern.is_final,
                is_of_record=pattern.is_of_record,
                is_denied=pattern.is_denied,
                rejected=rejected,
                unreadable=unreadable,
            )
    if causes and causes[-1].classes[0] == "org.apache.spark.SparkException":
        text = f"flow {flow}: a task ended without an exception, as when its executor is lost"
        return QueryError(text, is_final=False)
    text = f"flow {flow}: the query failed: {detail}"
    return UnexplainedError(text, is_final=False)


def rejection(flow: Flow, rejected: Mapping[TopicPartition, RecordRejection]) -> QueryError:
    """Returns the error of a query whose executors have reported what the target *rejected*."""
    text = next(iter(rejected.values())).text  # a class and what Kafka says
    name = text.partition(":")[0]
    known = (one.meaning for one in _REJECTED if one.found.endswith(f".{name}"))
    meaning = next(known, "the target rejected a record")
    return QueryError(
        f"flow {flow}: {meaning} ({text})", is_final=True, is_of_record=True, rejected=rejected
    )


def _detail(causes: Sequence[Cause]) -> str:
    """Returns Kafka's class and text; its plain exception only says what a client makes of them."""
    of_kafka = [cause for cause in causes if cause.classes[0].startswith(_KAFKA)]
    of_kafka.sort(key=lambda cause: cause.name == "KafkaException")
    found = of_kafka[:1] or causes[-1:]
    return first_line(found[0].shown) if found else ""


@contextmanager
def spark_errors(flow: Flow) -> Iterator[None]:
    """Turns Spark's errors of the block into a `QueryError`.

    Spark's own jobs fail as a query does: a broker restarts, an executor is lost.
    """
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        raise explain(flow, error) from error
