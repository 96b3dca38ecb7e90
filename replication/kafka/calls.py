"""Calls to one cluster's AdminClient: one timeout, retries, and errors that say why.

A call is one request for many keys; each key gets its own answer or its own error.
"""

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future, wait
from typing import Any, Final, TypeVar

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from replication.config.clients.librdkafka import librdkafka_properties
from replication.kafka.diagnosis import (
    NOT_FOUND,
    RETRIABLE,
    CallError,
    ClientDiagnostics,
    call_error,
    kafka_error,
)

Key = TypeVar("Key")
Value = TypeVar("Value")

DEFAULT_TIMEOUT_MS: Final = "30000"
PAUSE_SECONDS: Final = 0.1


class Calls:
    """The client of one cluster, and what all its calls have in common.

    Args:
        alias: The cluster's name in the configuration.
        properties: Client properties in Java's key space, ``bootstrap.servers`` among them.
        client_id: Role, added to the ``client.id`` that *properties* may have.
    """

    def __init__(self, alias: str, properties: Mapping[str, str], client_id: str) -> None:
        self._alias = alias
        self._servers = properties.get("bootstrap.servers", "")
        self._timeout_s = timeout_s(properties)
        self._complaints = ClientDiagnostics()
        settings: dict[str, Any] = {
            **librdkafka_properties(properties),
            "client.id": "|".join(filter(None, (properties.get("client.id"), client_id))),
            "error_cb": self._complaints.hear,
        }
        try:
            self.admin = AdminClient(settings, logger=self._complaints)
        except KafkaException as failure:
            raise self._error("be given a client", kafka_error(failure)) from None

    def results(
        self,
        call: str,
        ask: Callable[[Collection[Key], float], Mapping[Key, "Future[Value]"]],
        keys: Iterable[Key],
        exists: Callable[[Key], bool] = lambda _: False,
    ) -> dict[Key, "Value | KafkaError"]:
        """What the cluster says to each key, asked again while its error is a passing one.

        Args:
            call: What is tried, for the error.
            ask: Sends one request for all keys it is given, within the seconds it is given.
            keys: What to ask for; none sends nothing.
            exists: Whether a key that is said to be absent is there all the same: just made, and
                not known to every broker yet, or without a leader.

        Raises:
            CallError: The cluster cannot be reached, or does not answer in time.
        """
        deadline = time.monotonic() + self._timeout_s
        results: dict[Key, Value | KafkaError] = {}
        pending = list(keys)
        while pending:
            self._complaints.forget()
            left_s = max(PAUSE_SECONDS, deadline - time.monotonic())
            for key, future in ask(pending, left_s).items():
                result: Value | KafkaError = self._result(call, future)
                results[key] = result
            errors = {key: it for key in pending if isinstance(it := results[key], KafkaError)}
            hidden = [key for key, it in errors.items() if it.name() in NOT_FOUND and exists(key)]
            pending = [*hidden, *(key for key, it in errors.items() if it.name() in RETRIABLE)]
            if time.monotonic() + PAUSE_SECONDS > deadline:
                self._refuse_hidden(call, hidden)
                break
            if pending:
                self.admin.poll(PAUSE_SECONDS)
        return results

    def _refuse_hidden(self, call: str, keys: Collection[Key]) -> None:
        """What exists must not pass for absent, however long it has no leader."""
        if keys:
            call = f"{call} {listed([str(key) for key in keys])}"
            reason = f"no broker led it for {self._timeout_s:g} s"
            raise call_error(self._alias, self._servers, call, "LEADER_NOT_AVAILABLE", reason)

    def accepted(
        self,
        call: str,
        results: Mapping[Key, "Value | KafkaError"],
        tolerated: Collection[str] = (),
    ) -> dict[Key, "Value"]:
        """The results without the *tolerated* errors; any other error is raised, all at once."""
        accepted: dict[Key, Value] = {}
        refused: dict[Key, KafkaError] = {}
        for key, result in results.items():
            if not isinstance(result, KafkaError):
                accepted[key] = result
            elif result.name() not in tolerated:
                refused[key] = result
        if refused:
            reason = "; ".join(f"{key}: {error.str()}" for key, error in refused.items())
            code = next(iter(refused.values())).name()
            names = listed([str(key) for key in refused])
            raise call_error(self._alias, self._servers, f"{call} {names}", code, reason)
        return accepted

    def blocking(self, call: str, ask: Callable[..., Value]) -> Value:
        """The answer of one of the few calls that take ``timeout`` and have no future."""
        self._complaints.forget()
        try:
            return ask(timeout=self._timeout_s)
        except KafkaException as failure:
            self.admin.poll(0)
            raise self._error(call, kafka_error(failure)) from None

    def until_nothing(self, missing: Callable[[], Collection[str]], call: str) -> None:
        """Ask *missing* until it finds nothing; an error with what it found after the timeout."""
        deadline = time.monotonic() + self._timeout_s
        while names := missing():
            if time.monotonic() > deadline:
                reason = f"{listed(names)} not seen after {self._timeout_s:g} s"
                raise call_error(self._alias, self._servers, call, "_TIMED_OUT", reason)
            self.admin.poll(PAUSE_SECONDS)

    def _result(self, call: str, future: "Future[Value]") -> "Value | KafkaError":
        while not wait([future], PAUSE_SECONDS).done:
            self.admin.poll(0)  # lets librdkafka say what the matter is
            if self._complaints.is_hopeless():
                raise self._error(call, None)
        failure = future.exception()
        if failure is None:
            return future.result()
        if not isinstance(failure, KafkaException):
            raise failure
        self.admin.poll(0)
        error = kafka_error(failure)
        if error.name().startswith("_") and error.name() not in NOT_FOUND:
            raise self._error(call, error)
        return error

    def _error(self, call: str, error: KafkaError | None) -> CallError:
        code, reason = self._complaints.reason(error)
        return call_error(self._alias, self._servers, call, code, reason)


def listed(names: Collection[str], most: int = 5) -> str:
    """A few of *names*, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(sorted(names)[:most]) + more


def timeout_s(properties: Mapping[str, str]) -> float:
    """How long a whole call may take; Java's keys for it, the longer one first."""
    shorter = properties.get("request.timeout.ms", DEFAULT_TIMEOUT_MS)
    return int(properties.get("default.api.timeout.ms", shorter)) / 1000
