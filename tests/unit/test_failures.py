"""Errors of Spark and Kafka are explained, and final if a restart cannot help."""

import pytest

from replication.flows.replicate.failures import (
    CLASS_STEP,
    NATIVE_STEP,
    PASSING,
    QueryError,
    UnexplainedError,
    blamed_part,
    decisive,
    explain,
    explained,
    rejection,
)
from replication.model import Flow, TopicPartition
from replication.offsets.pending import RecordRejection
from replication.spark.causes import FAILURE, Cause
from replication.topics.topic_plan import TopicPlan

FLOW = Flow("A", "B")
ERRORS = "org.apache.kafka.common.errors"
KAFKA = "org.apache.kafka.common.KafkaException"
ABORTED = Cause(
    ("org.apache.spark.SparkException", "java.lang.Exception"),
    "Job aborted due to stage failure: Lost task 0.0 in stage 4.0 (TID 7) (10.0.0.5 executor 3): ",
)


def kafka(name: str, text: str, *above: str) -> list[Cause]:
    """What a failed query comes from where Kafka's client has thrown."""
    return [ABORTED, Cause((f"{ERRORS}.{name}", *above), text)]


@pytest.mark.parametrize(
    ("causes", "text", "is_final"),
    [
        pytest.param(
            kafka("RecordTooLargeException", "The message is 2000 bytes"),
            "the target rejected a record as too large "
            "(RecordTooLargeException: The message is 2000 bytes)",
            True,
            id="too large",
        ),
        pytest.param(
            kafka("InvalidTopicException", "Topic is not valid"),
            "a record reached the producer without its timestamp: the interceptor's version "
            "differs (InvalidTopicException: Topic is not valid)",
            True,
            id="no timestamp",
        ),
        pytest.param(
            [
                Cause((KAFKA,), "Class replication.producer.PreserveTimestamps cannot be found"),
                Cause(
                    ("java.lang.ClassNotFoundException", "java.lang.ReflectiveOperationException"),
                    "replication.producer.PreserveTimestamps",
                ),
            ],
            "the interceptor class is not on the executors' class path: pass its jar with --jars, "
            "or set record.timestamps=broker "
            "(KafkaException: Class replication.producer.PreserveTimestamps cannot be found)",
            True,
            id="no interceptor",
        ),
        pytest.param(
            kafka("TopicAuthorizationException", "Not authorized to access topics: [orders]"),
            "a cluster denied access to a topic "
            "(TopicAuthorizationException: Not authorized to access topics: [orders])",
            False,
            id="not authorized",
        ),
        pytest.param(
            [
                Cause((KAFKA,), "Cannot execute transactional method: in an error state"),
                *kafka(
                    "ClusterAuthorizationException",
                    "Cluster authorization failed.",
                    f"{ERRORS}.AuthorizationException",
                ),
            ],
            "a cluster denied access "
            "(ClusterAuthorizationException: Cluster authorization failed.)",
            True,
            id="not authorized by the cluster, as the client repeats it",
        ),
        pytest.param(
            kafka(
                "SaslAuthenticationException",
                "Authentication failed",
                f"{ERRORS}.AuthenticationException",
            ),
            "a cluster rejected the credentials "
            "(SaslAuthenticationException: Authentication failed)",
            True,
            id="credentials",
        ),
        pytest.param(
            [Cause(("x.KafkaIllegalStateException",), "lost", "KAFKA_DATA_LOSS.START_OFFSET")],
            "the source no longer has the next records or their topic "
            "(KAFKA_DATA_LOSS.START_OFFSET)",
            False,
            id="data loss",
        ),
        pytest.param(
            [Cause(("replication.source.DataLoss",), "t-0 ends at 5, before offset 7")],
            "the source no longer has the next records or their topic "
            "(DataLoss: t-0 ends at 5, before offset 7)",
            False,
            id="data loss of the shared source",
        ),
        pytest.param(
            [ABORTED, Cause(("java.lang.ArithmeticException",), "long overflow")],
            "a record's timestamp does not fit Spark's type (ArithmeticException)",
            True,
            id="impossible time",
        ),
        pytest.param(
            kafka("UnknownTopicOrPartitionException", "This server does not host this topic"),
            "a broker does not know a topic that is replicated: it was deleted, or is new to it "
            "(UnknownTopicOrPartitionException: This server does not host this topic)",
            False,
            id="deleted topic",
        ),
        pytest.param(
            [
                Cause(
                    ("replication.source.UnknownEnds", f"{ERRORS}.TimeoutException"),
                    "no answer where 2 partitions end, such as t-1",
                )
            ],
            "no broker of the source says where partitions end: start those that lead them "
            "(UnknownEnds: no answer where 2 partitions end, such as t-1)",
            False,
            id="unknown ends",
        ),
        pytest.param(
            kafka("TimeoutException", "Topic A.orders not present in metadata after 60000 ms."),
            "the target did not show a remote topic: it was deleted, or no broker answered "
            "(TimeoutException: Topic A.orders not present in metadata after 60000 ms.)",
            False,
            id="deleted remote topic",
        ),
        pytest.param(
            kafka(
                "InvalidTopicException",
                "Invalid topics: [replication: the lease was lost before A.orders]",
            ),
            "this process no longer holds the lease of the flow (InvalidTopicException: Invalid "
            "topics: [replication: the lease was lost before A.orders])",
            False,
            id="lost lease",
        ),
        pytest.param(
            kafka("TimeoutException", "Timed out waiting for a node assignment"),
            "a cluster did not answer in time "
            "(TimeoutException: Timed out waiting for a node assignment)",
            False,
            id="no answer",
        ),
        pytest.param(
            [ABORTED],
            "a task ended without an exception, as when its executor is lost",
            False,
            id="lost executor",
        ),
        pytest.param(
            [ABORTED, Cause(("java.lang.IllegalStateException",), "Something new")],
            "the query failed: IllegalStateException",
            False,
            id="anything else",
        ),
    ],
)
def test_an_error_is_explained(causes: list[Cause], text: str, is_final: bool) -> None:  # noqa: FBT001  # a table's column
    error = explained(FLOW, causes, "Exception")

    assert (str(error), error.is_final) == (f"flow A->B: {text}", is_final)


def test_an_error_without_text_is_named() -> None:
    assert str(explain(FLOW, KeyboardInterrupt())) == (
        "flow A->B: the query failed: KeyboardInterrupt"
    )


@pytest.mark.parametrize(
    "word",
    [
        *("TimeoutException", "SaslAuthenticationException", "RecordTooLargeException"),
        *("KAFKA_DATA_LOSS", "No space left on device", "java.lang.OutOfMemoryError"),
        *("ExecutorLostFailure", "replication: the lease was lost before t", "(TID 1) (x executor"),
        "the transform x fails: its value becomes NULL for orders-0 offset 5",
        "Received exception when fetching the next record from orders-0. ",
        "replication.producer.PreserveTimestamps",
    ],
)
@pytest.mark.parametrize("name", ["SparkIllegalArgumentException", "SparkRuntimeException"])
def test_what_a_record_holds_decides_nothing_and_is_not_shown(word: str, name: str) -> None:
    text = f"[CANNOT_DECODE_URL] The provided URL cannot be decoded: %zz {word}"
    failed = Cause((f"org.apache.spark.{name}",), text, "CANNOT_DECODE_URL")
    aborted = Cause(ABORTED.classes, ABORTED.text + text)

    error = explained(FLOW, [aborted, failed], "Exception")

    assert isinstance(error, UnexplainedError)
    assert str(error) == "flow A->B: the query failed: CANNOT_DECODE_URL"
    assert isinstance(explain(FLOW, RuntimeError(text)), UnexplainedError)
    assert word not in str(explain(FLOW, RuntimeError(text)))


def test_what_executors_have_reported_of_a_record_is_about_that() -> None:
    text = "RecordTooLargeException: The message is 2000 bytes"
    rejected = {TopicPartition("t", 0): RecordRejection(5, text)}

    error = rejection(FLOW, rejected)

    assert (error.is_of_record, error.is_final, error.rejected) == (True, True, rejected)
    assert str(error) == f"flow A->B: the target rejected a record as too large ({text})"


UNREADABLE = [
    ABORTED,
    Cause(
        (KAFKA,),
        "Received exception when fetching the next record from o-r-1-3. If needed, please seek",
    ),
]


def test_the_partition_of_a_record_that_cannot_be_read_is_known() -> None:
    damaged = "Record batch for partition o-r-1-3 at offset 10 is invalid, cause: no CRC"

    error = explained(FLOW, [*UNREADABLE, Cause((KAFKA,), damaged)], "Exception")

    assert error.is_of_record
    assert error.unreadable == {TopicPartition("o-r-1", 3): damaged}


@pytest.mark.parametrize(
    ("classes", "text", "step"),
    [
        pytest.param(
            ["java.lang.UnsatisfiedLinkError", "java.lang.LinkageError"],
            "/nx/libzstd.so: failed to map segment",
            NATIVE_STEP,
            id="no native library",
        ),
        pytest.param(
            ["java.lang.NoClassDefFoundError", "java.lang.LinkageError"],
            "Could not initialize class org.xerial.snappy.Snappy",
            NATIVE_STEP,
            id="the next attempts",
        ),
        pytest.param(
            ["org.xerial.snappy.SnappyError", "java.lang.Error"],
            "[FAILED_TO_LOAD_NATIVE_LIBRARY] no native library",
            NATIVE_STEP,
            id="snappy's own error",
        ),
        pytest.param(
            ["java.lang.ExceptionInInitializerError", "java.lang.LinkageError"],
            "",
            CLASS_STEP,
            id="no text",
        ),
        pytest.param(
            ["java.io.IOException"],
            "No space left on device",
            PASSING["No space left on device"],
            id="full disk",
        ),
        pytest.param(
            ["java.nio.file.FileSystemException", "java.io.IOException"],
            "x: Too many open files",
            PASSING["Too many open files"],
            id="open files",
        ),
        pytest.param(
            ["java.lang.OutOfMemoryError", "java.lang.VirtualMachineError"],
            "Java heap space",
            PASSING["java.lang.OutOfMemoryError"],
            id="memory",
        ),
    ],
)
def test_a_record_is_not_to_blame_for_what_a_machine_lacks(
    classes: list[str], text: str, step: str
) -> None:
    words = UNREADABLE[-1].text.replace("o-r-1-3", "other-0")
    of_a_record = Cause(("java.lang.ArithmeticException",), words)
    lacking = Cause(tuple(classes), text)

    error = explained(FLOW, [*UNREADABLE, of_a_record, lacking], "Exception")

    assert error.machine.startswith("Spark's process on 10.0.0.5 met: ")
    assert error.machine.endswith(f"; {step}")
    assert set(error.unreadable) == {TopicPartition("o-r-1", 3)}
    assert error.is_final == (step in {NATIVE_STEP, CLASS_STEP})


def test_a_record_that_a_transform_fails_on_is_known_by_its_place() -> None:
    text = "the transform only-eu fails: its filter is NULL for orders.eu-1-12 offset 345"
    tp = TopicPartition("orders.eu-1", 12)

    error = explained(FLOW, [ABORTED, Cause((FAILURE,), text, record=(tp, 345))], "Exception")

    assert type(error) is QueryError
    assert error.undecided == {tp: text}
    assert (error.is_of_record, error.is_final) == (True, True)
    assert text in str(error)


def test_of_two_queries_the_one_that_is_explained_says_why() -> None:
    left_behind = explain(FLOW, RuntimeError("a reader that the other query has closed"))
    rejected = explained(FLOW, kafka("RecordTooLargeException", "1 MB"), "Exception")
    lost = explained(FLOW, [ABORTED], "Exception")

    assert isinstance(left_behind, UnexplainedError)
    assert isinstance(left_behind.__cause__, RuntimeError)
    for known in (rejected, lost):
        assert decisive([left_behind, known]) is known
        assert decisive([known, left_behind]) is known
    assert decisive([rejected, lost]) is rejected, "in their order otherwise"
    assert decisive([left_behind]) is left_behind


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        pytest.param(
            rejection(FLOW, {TopicPartition("a", 1): RecordRejection(5, "TooLarge: 1 MB")}), "a",
            id="rejected",
        ),
        pytest.param(explained(FLOW, UNREADABLE, "Exception"), "", id="not of this query"),
        pytest.param(
            explained(FLOW, [Cause((FAILURE,), "NULL", record=(TopicPartition("b", 0), 9))], "E"),
            "b",
            id="undecided",
        ),
        pytest.param(explain(FLOW, RuntimeError("any")), "bc", id="somebody's transform"),
        pytest.param(explained(FLOW, kafka("RecordTooLargeException", "1 MB"), "E"), "", id="?"),
        pytest.param(
            explained(FLOW, [ABORTED, Cause(("java.lang.OutOfMemoryError",), "")], "E"), "",
            id="the machine",
        ),
    ],
)  # fmt: skip
def test_the_topics_that_may_be_to_blame_are_those_that_the_error_names(
    error: QueryError, expected: str
) -> None:
    """If it names none, they are all that have transforms; and none if it may be any topic."""
    plan = TopicPlan(
        topics={name: f"A.{name}" for name in "abc"},
        create=(),
        grow={},
        partitions=tuple(TopicPartition(name, 0) for name in "abc"),
        source_ids={name: f"id of {name}" for name in "abc"},
        transforms={"b": (), "c": ()},
    )

    assert set(blamed_part(error, plan).topics) == set(expected)
