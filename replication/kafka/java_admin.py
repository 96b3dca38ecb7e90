"""Java's admin client of one cluster, for what confluent-kafka does wrong.

Within the configured timeout every call returns, or raises a `ClusterError` that names call,
cluster, value and next step.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import ClassVar

from py4j.java_gateway import JVMView

from replication.config.clients.defaults import with_defaults
from replication.kafka.api import ClientError, ClientFailure
from replication.kafka.call import Call
from replication.kafka.calls import timeout_s
from replication.kafka.diagnosis import UNREACHABLE, CallError, call_error
from replication.kafka.java_errors import java_errors
from replication.kafka.jvm import java_map
from replication.kafka.reach import bound_s, reach_of


class JavaAdmin:
    """The client. It joins no group.

    Args:
        jvm: py4j's view of a JVM that has the client: a Spark session's, or `open_jvm`'s.
        alias: The cluster's name in the configuration.
        properties: Client properties in Java's key space, ``bootstrap.servers`` among them.

    Raises:
        CallError: No client can be created with these properties.
    """

    role: ClassVar[str]
    """What it is for, in the client's id."""

    def __init__(self, jvm: JVMView, alias: str, properties: Mapping[str, str]) -> None:
        self.alias = alias
        self.servers = properties.get("bootstrap.servers", "")
        self._properties = properties
        self._reach = reach_of(properties)
        self._jvm = jvm
        self._client = jvm.org.apache.kafka.clients
        timeout_ms = str(int(timeout_s(properties) * 1000))
        own = {"default.api.timeout.ms": timeout_ms, "request.timeout.ms": timeout_ms}
        name = "|".join(filter(None, (properties.get("client.id"), f"replication-{self.role}")))
        own["client.id"] = name
        settings = java_map(jvm, {**with_defaults("admin", properties), **own})
        with self._translated(Call("creating a client")):
            self._admin = self._client.admin.AdminClient.create(settings)

    def __exit__(self, *_: object) -> None:
        """Closes the connections. The object is of no use afterwards."""
        self._admin.close()

    @contextmanager
    def named(self, call: Call) -> Iterator[None]:
        """Turns a failure of the Java client into a `CallError` with Kafka's name for it.

        A cluster that does not answer at all is not even asked: the client would wait for its
        whole timeout.
        """
        if silence := self._reach.await_answer(bound_s(self._properties)):
            raise self._failed(call, silence)
        with self._translated(call):
            yield

    @contextmanager
    def _translated(self, call: Call) -> Iterator[None]:
        try:
            with java_errors(self._jvm):
                yield
        except ClientError as error:
            failure = error.failure
            silence = self._reach.look() if failure.code in UNREACHABLE else None
            raise self._failed(call, silence or failure) from None

    def _failed(self, call: Call, failure: ClientFailure) -> CallError:
        return call_error(self.alias, self._properties, call, failure)
