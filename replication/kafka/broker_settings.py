"""Settings of a cluster's brokers that matter to a replicator."""

from typing import Final

from confluent_kafka.admin import ResourceType

from replication.kafka.calls import Calls
from replication.kafka.topic_settings import describe_settings

PRODUCER_EXPIRATION: Final = "producer.id.expiration.ms"
UNSEEN: Final = frozenset({"CLUSTER_AUTHORIZATION_FAILED"})


def producer_expiration_ms(calls: Calls) -> int | None:
    """Returns how long a broker remembers a producer, from its last record's timestamp on, in ms.

    Returns:
        The value of the first broker; None if the cluster does not show it to this user.

    Raises:
        CallError: The cluster does not answer.
    """
    metadata = calls.call_blocking("listing the brokers", calls.admin.list_topics)
    call = "reading settings of broker"
    results = calls.results(
        call,
        lambda ids, s: describe_settings(calls.admin, ids, s, ResourceType.BROKER),
        [str(min(metadata.brokers))],
    )
    found = calls.require(call, results, UNSEEN)
    values = [own[PRODUCER_EXPIRATION] for own in found.values() if PRODUCER_EXPIRATION in own]
    return int(values[0].value) if values and values[0].value else None
