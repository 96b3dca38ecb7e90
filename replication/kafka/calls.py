"""Calls through one cluster's AdminClient: one timeout, retries, and errors that give the cause.

A call is one request for many keys. Each key gets a result or an error of its own.
"""

import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future, wait
from typing import Any, Final, TypeVar

from confluent_kafka import KafkaError, KafkaException

from replication.kafka.clients import open_admin
from replication.kafka.diagnosis import (
    LISTENER,
    NOT_FOUND,
    RETRIABLE,
    UNREACHABLE,
    CallError,
    ClientDiagnostics,
    InterruptedCallError,
    call_error,
    kafka_error,
)
from replication.kafka.java_topics import JavaTopics
from replication.kafka.listener import find_mismatch
from replication.kafka.reach import LOOK_SECONDS, Silence, bound_s, reach_of
from replication.model import TopicPartition

KeyT = TypeVar("KeyT")
ResultT = TypeVar("ResultT")

DEFAULT_TIMEOUT_MS: Final = "30000"
STALE: Final = frozenset({"FENCED_LEADER_EPOCH", "UNKNOWN_LEADER_EPOCH"})
"""librdkafka repeats such a request with the epoch that it remembers, until somebody reads the
metadata. A broker that has just started may still hand out old ones."""

POLL_SECONDS: Final = 0.1
"""Between two looks at a request: short, for a command waits for it."""


class Calls:
    """The admin client of one cluster, with what all its calls have in common.

    Args:
        alias: The cluster's name in the configuration.
        properties: Client properties in Java's key space, ``bootstrap.servers`` among them.
        client_id: The client's role; it is appended to a ``client.id`` of *properties*.
        patience_s: How long the cluster may be silent, instead of what `replication.kafka.reach`
            says.
        prefers_java: Whether to use Java's client where it can be, secured or not.
    """

    def __init__(
        self,
        alias: str,
        properties: Mapping[str, str],
        client_id: str,
        patience_s: float | None = None,
        *,
        prefers_java: bool = False,
    ) -> None:
        self._alias = alias
        self.reach = reach_of(properties)
        self._patience_s = bound_s(properties) if patience_s is None else patience_s
        self._timeout_s = timeout_s(properties)
        self._diagnostics = ClientDiagnostics()
        self._properties = properties
        self._listener_is_known = False
        name = "|".join(filter(None, (properties.get("client.id"), client_id)))
        self._admin: Any = None
        try:
            self._admin = open_admin(
                properties, name, self._timeout_s, self._diagnostics, prefers_java=prefers_java
            )
        except KafkaException as failure:
            raise self._error("creating a client", kafka_error(failure)) from None

    @property
    def admin(self) -> Any:  # noqa: ANN401 - one of two classes with the same methods
        """The client.

        Raises:
            InterruptedCallError: It is closed, as for a thread that outlives a stop.
        """
        if self._admin is None:
            raise InterruptedCallError(self._alias, "a call")
        return self._admin

    def close(self) -> None:
        """Closes the connections; confluent-kafka's client does so when it is deleted."""
        if isinstance(self._admin, JavaTopics):
            self._admin.close()
        self._admin = None

    def results(
        self,
        call: str,
        send: Callable[[Collection[KeyT], float], Mapping[KeyT, "Future[ResultT]"]],
        keys: Iterable[KeyT],
        exists: Callable[[KeyT], bool] = lambda _: False,
    ) -> dict[KeyT, "ResultT | KafkaError"]:
        """Collects the result or error of each key. Retriable errors are retried until the timeout.

        Args:
            call: What is tried, for the error: ``listing offsets of``.
            send: Sends one request for the given keys, with the given timeout in seconds.
            keys: What the request is about; without keys nothing is sent.
            exists: Whether a key that is reported as not found exists all the same, because it is
                new and not every broker knows it, or because it has no leader.

        Raises:
            CallError: The cluster cannot be reached, or does not answer in time.
        """
        deadline = time.monotonic() + self._timeout_s
        results: dict[KeyT, ResultT | KafkaError] = {}
        pending = list(keys)
        while pending:
            self._diagnostics.reset()
            left_s = max(POLL_SECONDS, deadline - time.monotonic())
            for key, future in send(pending, left_s).items():
                result: ResultT | KafkaError = self._result(call, future)
                results[key] = result
            codes = {
                key: result.name()
                for key in pending
                if isinstance(result := results[key], KafkaError)
            }
            hidden = [key for key, code in codes.items() if code in NOT_FOUND and exists(key)]
            pending = [*hidden, *(key for key, code in codes.items() if code in RETRIABLE)]
            if time.monotonic() + POLL_SECONDS > deadline:
                self._raise_if_hidden(call, hidden)
                break
            if pending:
                if STALE.intersection(codes.values()):
                    self.call_blocking("reading the metadata", self.admin.list_topics)
                self.admin.poll(POLL_SECONDS)
        return results

    def _raise_if_hidden(self, call: str, keys: Collection[KeyT]) -> None:
        """Raises an error if there are *keys*: what exists must not be reported as not found."""
        if keys:
            call = f"{call} {join_names([str(key) for key in keys])}"
            reason = f"no broker led it, or not every broker knew it, for {self._timeout_s:g} s"
            raise call_error(self._alias, self._properties, call, "LEADER_NOT_AVAILABLE", reason)

    def require(
        self,
        call: str,
        results: Mapping[KeyT, "ResultT | KafkaError"],
        tolerated: Collection[str] = (),
    ) -> dict[KeyT, "ResultT"]:
        """Returns the results without the *tolerated* errors; raises all other errors as one.

        Raises:
            CallError: Names the topics that the cluster rejects, unless waiting might help.
        """
        succeeded: dict[KeyT, ResultT] = {}
        failed: dict[KeyT, KafkaError] = {}
        for key, result in results.items():
            if not isinstance(result, KafkaError):
                succeeded[key] = result
            elif result.name() not in tolerated:
                failed[key] = result
        if failed:
            reason = "; ".join(f"{key}: {error.str()}" for key, error in failed.items())
            code = next(iter(failed.values())).name()
            names = join_names([str(key) for key in failed])
            error = call_error(self._alias, self._properties, f"{call} {names}", code, reason)
            raise CallError(str(error), code, self._rejected(call, failed))
        return succeeded

    def _rejected(self, call: str, failed: Mapping[KeyT, KafkaError]) -> dict[str, str]:
        if any(error.name() in RETRIABLE for error in failed.values()):
            return {}
        return {
            topic_of(key): str(
                call_error(
                    self._alias, self._properties, f"{call} {key}", error.name(), error.str()
                )
            )
            for key, error in failed.items()
        }

    def denial(self, call: str) -> str:
        """Returns the text of a *call* that this user may not make, with the ACL that allows it."""
        reason = "not authorized"
        return str(
            call_error(self._alias, self._properties, call, "TOPIC_AUTHORIZATION_FAILED", reason)
        )

    def call_blocking(self, call: str, send: Callable[..., ResultT]) -> ResultT:
        """Makes one of the few calls that take a ``timeout`` and return no future.

        It runs in a thread of its own, so that rejected credentials end the wait for it.
        """
        self._diagnostics.reset()
        future: Future[ResultT] = Future()

        def run() -> None:
            try:
                future.set_result(send(timeout=self._timeout_s))
            except Exception as failure:  # noqa: BLE001 - raised again in the caller's thread
                future.set_exception(failure)

        threading.Thread(target=run, name="kafka-call", daemon=True).start()
        result = self._result(call, future)
        if isinstance(result, KafkaError):
            raise self._error(call, result)
        return result

    def wait_for(self, missing: Callable[[], Collection[str]], call: str) -> None:
        """Calls *missing* until it returns nothing.

        Raises:
            CallError: It still returned names when the timeout had passed.
        """
        deadline = time.monotonic() + self._timeout_s
        while names := missing():
            if time.monotonic() > deadline:
                reason = f"{join_names(names)} not visible after {self._timeout_s:g} s"
                raise call_error(self._alias, self._properties, call, "_TIMED_OUT", reason)
            self.admin.poll(POLL_SECONDS)

    def _result(self, call: str, future: "Future[ResultT]") -> "ResultT | KafkaError":
        late_at = time.monotonic() + LOOK_SECONDS
        while not wait([future], POLL_SECONDS).done:
            self.admin.poll(0)  # runs the error callback, which may have the cause
            if self._diagnostics.is_hopeless():
                raise self._error(call, None)
            if time.monotonic() >= late_at:
                self._look_at_late(call)
        failure = future.exception()
        if failure is None:
            self.reach.answered()
            return future.result()
        if not isinstance(failure, KafkaException):
            raise failure
        self.admin.poll(0)
        error = kafka_error(failure)
        if error.name() in UNREACHABLE:
            raise self._unreachable(call, error)
        if error.name().startswith("_") and error.name() not in NOT_FOUND:
            raise self._error(call, error)
        self.reach.answered()
        return error

    def _look_at_late(self, call: str) -> None:
        """Raises an error if *call*, which is late, waits for a cluster that does not answer."""
        silence = self.reach.given_up(self._patience_s)  # looks, if that is due
        if self.reach.is_open:
            self._look_at_listener(call)
        if silence is not None:
            raise self._silent(call, silence)

    def _unreachable(self, call: str, error: KafkaError) -> CallError:
        """Returns the error of *call*, which the client has given up for want of an answer."""
        silence = self.reach.look()
        if self.reach.is_open:
            self._look_at_listener(call)
        return self._error(call, error) if silence is None else self._silent(call, silence)

    def _look_at_listener(self, call: str) -> None:
        """Raises an error if the listener speaks another protocol; looks only once."""
        if self._listener_is_known:
            return
        self._listener_is_known = True
        if mismatch := find_mismatch(self._properties):
            reason, _, step = mismatch.partition("; ")
            raise call_error(self._alias, self._properties, call, LISTENER, reason, step)

    def _error(self, call: str, error: KafkaError | None) -> CallError:
        code, reason = self._diagnostics.reason(error)
        return call_error(self._alias, self._properties, call, code, reason)

    def _silent(self, call: str, silence: Silence) -> CallError:
        return call_error(self._alias, self._properties, call, silence.code, silence.text)


def topic_of(key: object) -> str:
    """Returns the topic that a call's *key* is about."""
    return key.topic if isinstance(key, TopicPartition) else str(key)


def join_names(names: Collection[str], most: int = 5) -> str:
    """Returns the first few of *names* in one string, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(sorted(names)[:most]) + more


def timeout_s(properties: Mapping[str, str]) -> float:
    """Returns how long a whole call may take, in seconds, by the Java client's two keys for it."""
    shorter = properties.get("request.timeout.ms", DEFAULT_TIMEOUT_MS)
    return int(properties.get("default.api.timeout.ms", shorter)) / 1000
