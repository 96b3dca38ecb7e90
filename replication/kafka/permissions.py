"""What the user of a cluster may not do with its topics, as the cluster itself answers."""

from collections.abc import Iterable
from typing import Final, Literal

from confluent_kafka import KafkaError, TopicCollection

from replication.kafka.calls import Calls
from replication.kafka.diagnosis import NOT_FOUND

Operation = Literal["READ", "WRITE"]

CALLS: Final[dict[Operation, str]] = {"READ": "reading topic", "WRITE": "writing to topic"}
DENIED: Final = "TOPIC_AUTHORIZATION_FAILED"


def denied_topics(calls: Calls, operation: Operation, topics: Iterable[str]) -> dict[str, str]:
    """Returns why the user may not do *operation* on *topics*: only those where it may not.

    Topics that do not exist are absent. A broker that is older than Kafka 2.3 does not answer the
    question, so that nothing is denied.

    Raises:
        CallError: The cluster does not answer.
    """
    results = calls.results(
        "asking for permissions on topics",
        lambda keys, s: calls.admin.describe_topics(
            TopicCollection(list(keys)), include_authorized_operations=True, request_timeout=s
        ),
        topics,
    )
    hidden = {
        name
        for name, found in results.items()
        if isinstance(found, KafkaError) and found.name() == DENIED
    }
    visible = calls.require("describing topic", results, NOT_FOUND | {DENIED})
    forbidden = {
        name
        for name, found in visible.items()
        if found.authorized_operations is not None
        and operation not in {allowed.name for allowed in found.authorized_operations}
    }
    return {name: calls.denial(f"{CALLS[operation]} {name}") for name in sorted(hidden | forbidden)}
