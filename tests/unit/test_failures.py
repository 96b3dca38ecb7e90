"""Errors of Spark and Kafka are explained, and final if a restart cannot help."""

import pytest

from replication.flows.replicate.failures import explain
from replication.flows.replicate.machine_trouble import CLASS_STEP, NATIVE_STEP, PASSING
from replication.model import Flow, TopicPartition

FLOW = Flow("A", "B")
AT = "\n\tat org.apache.spark.Task.run(Task.scala:1)\n"


def kafka(name: str, text: str) -> str:
    """A failed query's text, as Spark prints it with a Kafka client's exception below."""
    cause = f"Caused by: org.apache.kafka.common.errors.{name}: {text}"
    return f"[STREAM_FAILED] Query terminated with exception: Job aborted{AT}{cause}{AT}"


@pytest.mark.parametrize(
    ("text", "explained", "is_final"),
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
            "KafkaException: Class replication.producer.PreserveTimestamps cannot be found" + AT,
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
            kafka("ClusterAuthorizationException", "Cluster authorization failed."),
            "a cluster denied access "
            "(ClusterAuthorizationException: Cluster authorization failed.)",
            True,
            id="not authorized by the cluster",
        ),
        pytest.param(
            kafka("KafkaException", "Cannot execute transactional method: in an error state")
            + "\nCaused by: "
            + kafka("ClusterAuthorizationException", "Cluster authorization failed."),
            "a cluster denied access "
            "(ClusterAuthorizationException: Cluster authorization failed.)",
            True,
            id="not authorized by the cluster, as the client repeats it",
        ),
        pytest.param(
            kafka("SaslAuthenticationException", "Authentication failed"),
            "a cluster rejected the credentials "
            "(SaslAuthenticationException: Authentication failed)",
            True,
            id="credentials",
        ),
        pytest.param(
            "[KAFKA_DATA_LOSS.START_OFFSET_RESET] Some data may have been lost" + AT,
            "the source no longer has the next records or their topic "
            "([KAFKA_DATA_LOSS.START_OFFSET_RESET] Some data may have been lost)",
            False,
            id="data loss",
        ),
        pytest.param(
            "Job aborted due to stage failure: Lost task 0.0 in stage 1.0\n"
            "java.lang.ArithmeticException: Record at topic t partition 0 offset 2 has timestamp "
            "value 9300000000000000 that overflows when converting to Spark's microsecond-precision"
            " TimestampType.",
            "a record's timestamp does not fit Spark's type "
            "(Job aborted due to stage failure: Lost task 0.0 in stage 1.0)",
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
            "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: no answer where "
            "partitions end, which have no leader or are deleted: [orders-1, orders-4]" + AT,
            "no broker of the source says where partitions end: start those that lead them "
            "([STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: no answer where "
            "partitions end, which have no leader or are deleted: [orders-1, orders-4])",
            False,
            id="unknown end",
        ),
        pytest.param(
            kafka("TimeoutException", "no answer where 2 partitions end, such as t-1"),
            "no broker of the source says where partitions end: start those that lead them "
            "(TimeoutException: no answer where 2 partitions end, such as t-1)",
            False,
            id="unknown ends of all",
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
            "\nSomething new" + AT,
            "the query failed: Something new",
            False,
            id="anything else",
        ),
    ],
)
def test_an_error_is_explained(text: str, explained: str, is_final: bool) -> None:  # noqa: FBT001  # a table's column
    error = explain(FLOW, RuntimeError(text))

    assert (str(error), error.is_final) == (f"flow A->B: {explained}", is_final)


def test_an_error_without_text_is_named() -> None:
    assert str(explain(FLOW, KeyboardInterrupt())) == (
        "flow A->B: the query failed: KeyboardInterrupt"
    )


def test_the_partition_of_a_record_that_cannot_be_read_is_known() -> None:
    text = (
        "Query terminated\norg.apache.kafka.common.KafkaException: Received exception when "
        "fetching the next record from o-r-1-3. If needed, please seek past the record to continue "
        f"consumption.{AT}Caused by: org.apache.kafka.common.KafkaException: Record batch for "
        f"partition o-r-1-3 at offset 10 is invalid, cause: no CRC{AT}"
    )

    error = explain(FLOW, RuntimeError(text))

    assert error.is_of_record
    assert error.unreadable == {
        TopicPartition("o-r-1", 3): (
            "Record batch for partition o-r-1-3 at offset 10 is invalid, cause: no CRC"
        )
    }


UNREADABLE = (
    "Query terminated\nLost task 0.0 in stage 4.0 (TID 7) (10.0.0.5 executor 3): "
    "org.apache.kafka.common.KafkaException: Received exception when fetching the next record from "
    f"t-0. If needed, please seek past the record to continue consumption.{AT}"
    "Caused by: org.apache.kafka.common.KafkaException: "
)


@pytest.mark.parametrize(
    ("cause", "step"),
    [
        pytest.param(
            "java.lang.UnsatisfiedLinkError: /nx/libzstd.so: failed to map segment",
            NATIVE_STEP,
            id="no native library",
        ),
        pytest.param(
            "java.lang.NoClassDefFoundError: Could not initialize class org.xerial.snappy.Snappy",
            NATIVE_STEP,
            id="the next attempts",
        ),
        pytest.param(
            "org.xerial.snappy.SnappyError: [FAILED_TO_LOAD_NATIVE_LIBRARY] no native library",
            NATIVE_STEP,
            id="snappy's own error",
        ),
        pytest.param("java.lang.ExceptionInInitializerError", CLASS_STEP, id="no text"),
        pytest.param(
            "java.lang.NoClassDefFoundError: net/jpountz/lz4/LZ4Factory", CLASS_STEP, id="no class"
        ),
        pytest.param("java.lang.NoSuchMethodError: 'void a.B.c()'", CLASS_STEP, id="version"),
        pytest.param(
            "java.io.IOException: No space left on device",
            PASSING["No space left on device"],
            id="full disk",
        ),
        pytest.param(
            "java.io.IOException: Too many open files",
            PASSING["Too many open files"],
            id="open files",
        ),
        pytest.param(
            "java.lang.OutOfMemoryError: Java heap space",
            PASSING["java.lang.OutOfMemoryError"],
            id="memory",
        ),
    ],
)
def test_a_record_is_not_to_blame_for_what_a_machine_lacks(cause: str, step: str) -> None:
    error = explain(FLOW, RuntimeError(f"{UNREADABLE}{cause}{AT}"))

    assert error.machine.startswith("Spark's process on 10.0.0.5 met: ")
    assert error.machine.endswith(f"; {step}")
    assert set(error.unreadable) == {TopicPartition("t", 0)}
    assert error.is_final == (step in {NATIVE_STEP, CLASS_STEP})


def test_open_files_that_run_out_end_no_flow_at_once_and_the_limit_is_named() -> None:
    error = explain(
        FLOW, RuntimeError(f"An error occurred{AT}java.io.IOException: Too many open files")
    )

    assert (error.is_final, error.is_of_record) == (False, False)
    assert "ulimit -n" in str(error)


def test_a_record_that_a_transform_fails_on_is_known_by_its_place() -> None:
    text = "the transform only-eu fails: its filter is NULL for orders.eu-1-12 offset 345"
    error = explain(FLOW, RuntimeError(f"Job aborted{AT}[USER_RAISED_EXCEPTION] {text}{AT}"))
    assert error.undecided == {TopicPartition("orders.eu-1", 12): text}
    assert (error.is_of_record, error.is_final) == (True, True)
    assert text in str(error)
