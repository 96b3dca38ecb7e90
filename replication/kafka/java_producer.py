"""Java's producer with the methods of confluent-kafka's that `InternalTopic` calls.

It speaks every security protocol of Java's clients. See `replication/jvm/calls/RecordWriter.java`.
"""

import json
import time
from collections.abc import Callable, Mapping

from confluent_kafka import KafkaError
from py4j.java_gateway import JVMView

from replication.kafka.java_errors import error_of, java_errors
from replication.kafka.jvm import java_map

OnDelivery = Callable[[KafkaError | None, None], None]
WAIT_SECONDS = 0.5


class JavaProducer:
    """The client, for one thread. It is closed when the JVM collects it.

    Args:
        jvm: py4j's view of a JVM that has our classes.
        properties: Client properties in Java's key space.

    Raises:
        KafkaException: No client can be created with these properties.
    """

    def __init__(self, jvm: JVMView, properties: Mapping[str, str]) -> None:
        self._jvm = jvm
        self._sent = 0
        self._waiting: dict[int, OnDelivery] = {}
        settings = java_map(jvm, properties)
        with java_errors(jvm):
            self._java = jvm.replication.calls.RecordWriter(settings)

    def produce(
        self, topic: str, value: bytes, key: bytes, partition: int, on_delivery: OnDelivery
    ) -> None:
        """Sends a record; *on_delivery* is called from `poll` or `flush`."""
        self._sent += 1
        self._waiting[self._sent] = on_delivery
        with java_errors(self._jvm):
            self._java.send(self._sent, topic, partition, key, value)

    def poll(self, timeout: float) -> None:
        """Calls ``on_delivery`` of what was acknowledged or has failed."""
        with java_errors(self._jvm):
            finished = json.loads(self._java.finished(int(timeout * 1000)))
        for one in finished:
            # Java tells some failures twice: by the callback, and by an exception
            if (on_delivery := self._waiting.pop(one["number"], None)) is not None:
                on_delivery(error_of(one) if "code" in one else None, None)

    def flush(self, timeout: float) -> int:
        """Waits until nothing is waiting; returns how many records still are after *timeout* s."""
        deadline = time.monotonic() + timeout
        while self._waiting and time.monotonic() < deadline:
            self.poll(WAIT_SECONDS)
        return len(self._waiting)
