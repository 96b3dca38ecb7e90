"""Java's admin client of one cluster, for what confluent-kafka does wrong.

Within the configured timeout every call returns, or raises a `ClusterError` that names call,
cluster, value and next step.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar, Final

from confluent_kafka import KafkaException
from py4j.java_gateway import JVMView
from py4j.protocol import Py4JJavaError

from replication.config.clients.defaults import with_defaults
from replication.kafka.calls import timeout_s
from replication.kafka.diagnosis import UNREACHABLE, CallError, call_error, kafka_error
from replication.kafka.reach import Silence, bound_s, reach_of

REFUSALS: Final = {
    "SslAuthenticationException": "_SSL",
    "SaslAuthenticationException": "_AUTHENTICATION",
    "UnsupportedSaslMechanismException": "_AUTHENTICATION",
    "IllegalSaslStateException": "_AUTHENTICATION",
    "LoginException": "_INVALID_ARG",
}
"""What ends a connection for good, by Java's class; the innermost cause only says why."""

OWN_END: Final = frozenset(
    {"InterruptedException", "InterruptException", "CancellationException", "WakeupException"}
)
CLOSED: Final = "AdminClient thread"
"""In the text of an error after this process has closed the client."""

UNRESOLVED: Final = "No resolvable bootstrap urls"


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
        settings = jvm.java.util.Properties()
        timeout_ms = str(int(timeout_s(properties) * 1000))
        own = {"default.api.timeout.ms": timeout_ms, "request.timeout.ms": timeout_ms}
        name = "|".join(filter(None, (properties.get("client.id"), f"replication-{self.role}")))
        for key, value in {**with_defaults("admin", properties), **own, "client.id": name}.items():
            settings.setProperty(key, value)
        with self._translated("creating a client"):
            self._admin = self._client.admin.AdminClient.create(settings)

    def __exit__(self, *_: object) -> None:
        """Closes the connections. The object is of no use afterwards."""
        self._admin.close()

    @contextmanager
    def named(self, call: str) -> Iterator[None]:
        """Turns a failure of the Java client into a `CallError` with Kafka's name for it.

        A cluster that does not answer at all is not even asked: the client would wait for its
        whole timeout.
        """
        if silence := self._reach.await_answer(bound_s(self._properties)):
            raise self._silent(call, silence)
        with self._translated(call):
            yield

    @contextmanager
    def _translated(self, call: str) -> Iterator[None]:
        try:
            yield
        except Py4JJavaError as failure:
            raise self._error(call, failure) from None
        except KafkaException as failure:  # as our Java classes report it
            error = kafka_error(failure)
            raise call_error(
                self.alias, self._properties, call, error.name(), error.str()
            ) from None

    def _error(self, call: str, failure: Py4JJavaError) -> CallError:
        causes = [failure.java_exception]
        while (cause := causes[-1].getCause()) is not None:  # the future and the client wrap it
            causes.append(cause)
        names = [str(cause.getClass().getSimpleName()) for cause in causes]
        reason = str(causes[-1].getMessage() or names[-1])
        code = next((REFUSALS[name] for name in names if name in REFUSALS), None)
        if OWN_END.intersection(names) or CLOSED in reason:
            code = "_INTR"
        elif UNRESOLVED in reason:
            code = "_RESOLVE"
        code = code or str(self._errors.forException(causes[-1]).name())
        code = "_TIMED_OUT" if code == "REQUEST_TIMED_OUT" else code  # mostly the client's own
        if code in UNREACHABLE and (silence := self._reach.look()):
            return self._silent(call, silence)
        return call_error(self.alias, self._properties, call, code, reason)

    def _silent(self, call: str, silence: Silence) -> CallError:
        return call_error(self.alias, self._properties, call, silence.code, silence.text)

    @property
    def _errors(self) -> Any:  # noqa: ANN401 - a Java class
        return self._jvm.org.apache.kafka.common.protocol.Errors
