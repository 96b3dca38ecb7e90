"""Settings of a cluster's brokers that matter to a replicator."""

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka.admin import ConfigResource

from replication.kafka.calls import Calls

if TYPE_CHECKING:
    from concurrent.futures import Future

PRODUCER_EXPIRATION: Final = "producer.id.expiration.ms"
UNSEEN: Final = frozenset({"CLUSTER_AUTHORIZATION_FAILED"})


def producer_expiration_ms(calls: Calls) -> int | None:
    """How long a broker remembers a producer, counted from the timestamp of its last record.

    Returns:
        The value of the first broker; None if the cluster does not show it to this user.

    Raises:
        CallError: The cluster does not answer.
    """

    def send(ids: Collection[str], timeout_s: float) -> dict[str, "Future[Any]"]:
        resources = {ConfigResource(ConfigResource.Type.BROKER, number) for number in ids}
        asked = calls.admin.describe_configs(list(resources), request_timeout=timeout_s)
        return {resource.name: future for resource, future in asked.items()}

    metadata = calls.call_blocking("listing the brokers", calls.admin.list_topics)
    call = "reading settings of broker"
    results = calls.results(call, send, [str(min(metadata.brokers))])
    found = calls.require(call, results, UNSEEN)
    values = [own[PRODUCER_EXPIRATION] for own in found.values() if PRODUCER_EXPIRATION in own]
    return int(values[0].value) if values and values[0].value else None
