"""Java's producer behind `replication.kafka.api.RecordSender`.

It speaks every security protocol of Java's clients. See `replication/jvm/calls/RecordWriter.java`.
"""

import json
import time
from collections.abc import Mapping

from py4j.java_gateway import JVMView

from replication.java import java_class
from replication.kafka.api import Done
from replication.kafka.java_errors import failure_in, java_errors
from replication.kafka.jvm import java_map
from replication.model import TopicPartition

WAIT_SECONDS = 0.5


class JavaSender:
    """The producer; see `api.RecordSender`. It is closed when the JVM collects it.

    Args:
        jvm: py4j's view of a JVM that has our classes.
        properties: Client properties in Java's key space.

    Raises:
        ClientError: No client can be created with these properties.
    """

    def __init__(self, jvm: JVMView, properties: Mapping[str, str]) -> None:
        self._jvm = jvm
        self._sent = 0
        self._calls = 1
        self._waiting: dict[int, Done] = {}
        settings = java_map(jvm, properties)
        with java_errors(jvm):
            self._java = java_class(jvm, "replication.calls.RecordWriter")(settings)

    def connect(self, topic: str) -> None:
        """Does nothing: Java's client connects at once."""

    def send(
        self,
        to: TopicPartition,
        key: bytes,
        value: bytes | None,
        done: Done,
    ) -> None:
        """Sends a record, and calls those functions whose records' fates are known by now."""
        self._sent += 1
        self._waiting[self._sent] = done
        with java_errors(self._jvm):
            self._java.send(self._sent, to.topic, to.partition, key, value)
        self._settle(0)

    def flush(self, timeout_s: float) -> None:
        """Waits until all records are acknowledged or have failed."""
        deadline = time.monotonic() + timeout_s
        while self._waiting:
            left_s = deadline - time.monotonic()
            self._settle(min(max(0.0, left_s), WAIT_SECONDS))
            if left_s <= 0:
                break

    def _settle(self, timeout_s: float) -> None:
        with java_errors(self._jvm):
            finished = json.loads(self._java.finished(self._calls, int(timeout_s * 1000)))
        self._calls += 1  # not where it has failed: what it had taken is in the next answer
        for one in finished:
            # Java tells some failures twice: by the callback, and by an exception
            if (done := self._waiting.pop(one["number"], None)) is not None:
                done(failure_in(one), one.get("stamped", -1))
