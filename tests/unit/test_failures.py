"""Errors of Spark and Kafka are explained, and final if a restart cannot help."""

import pytest

from replication.flows.replicate.failures import explain
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
            "KafkaException: Class replication.PreserveTimestamps cannot be found" + AT,
            "the interceptor class is not on the executors' class path: pass its jar with --jars, "
            "or set record.timestamps=broker "
            "(KafkaException: Class replication.PreserveTimestamps cannot be found)",
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
            "a topic was deleted while it was replicated "
            "(UnknownTopicOrPartitionException: This server does not host this topic)",
            False,
            id="deleted topic",
        ),
        pytest.param(
            kafka("TimeoutException", "Topic A.orders not present in metadata after 60000 ms."),
            "a remote topic was deleted "
            "(TimeoutException: Topic A.orders not present in metadata after 60000 ms.)",
            False,
            id="deleted remote topic",
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
