"""Errors of confluent-kafka's clients as values of ours.

A call of librdkafka's that fails ends in "timed out". The cause is in an error callback and in log
lines only. `ClientDiagnostics` collects both, so that the error can name the refused connection or
the wrong password.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException

from replication.kafka.api import ClientError, ClientFailure
from replication.kafka.diagnosis import NOT_FOUND, UNREACHABLE
from replication.log import Log

log = Log(__name__)

KAFKA_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "INVALID_MSG": "CORRUPT_MESSAGE",
        "MSG_SIZE_TOO_LARGE": "MESSAGE_TOO_LARGE",
        "NOT_LEADER_FOR_PARTITION": "NOT_LEADER_OR_FOLLOWER",
        "TOPIC_EXCEPTION": "INVALID_TOPIC_EXCEPTION",
        "UNKNOWN_TOPIC_OR_PART": NOT_FOUND,
        "_NOENT": NOT_FOUND,  # no partition has a leader, as when their topic was deleted
        "_UNKNOWN_PARTITION": NOT_FOUND,
        "_UNKNOWN_TOPIC": NOT_FOUND,
    }
)
"""Kafka's own names of errors that librdkafka calls otherwise."""


class ClientDiagnostics:
    """The errors and log lines of one librdkafka client since `reset`.

    It writes everything to the log at debug level, and nothing to stderr.
    """

    def __init__(self) -> None:
        self.settings: Final[Mapping[str, Any]] = {"error_cb": self._on_error, "logger": self}
        self._last_error: ClientFailure | None = None
        self._last_line: str | None = None

    def log(self, level: int, text: str, *args: object) -> None:
        """Takes a log line of librdkafka, which calls this method like a ``logging.Logger``'s."""
        line = text % args
        log.debug("client_log", text=line)
        if level >= logging.WARNING:
            self._last_line = line

    def _on_error(self, error: KafkaError) -> None:
        new = failure_of(error)
        log.debug("client_error", code=new.code, text=new.text)
        if new.code == "_ALL_BROKERS_DOWN":  # the error before it has the cause
            return
        last = self._last_error
        if last is None or last.code != new.code or len(last.text) <= len(new.text):
            self._last_error = new  # the longer text has the hint: "is this a PLAINTEXT listener?"

    def reset(self) -> None:
        """Forgets everything: a new call begins, which has causes of its own."""
        self._last_error = self._last_line = None

    def cause(self, failure: ClientFailure) -> ClientFailure:
        """Returns what was met instead of *failure*, if that only means "no answer"."""
        if failure.code not in UNREACHABLE:
            return failure
        if self._last_error:
            return self._last_error
        text = f"{failure.text} ({self._last_line})" if self._last_line else failure.text
        return ClientFailure(failure.code, text)

    def raise_if_hopeless(self) -> None:
        """Raises an error if waiting makes no sense, as the cluster rejected the credentials."""
        if self._last_error is not None and self._last_error.code == "_AUTHENTICATION":
            raise ClientError(self._last_error)

    @contextmanager
    def errors(self, poll: Callable[[float], object] = lambda _: None) -> Iterator[None]:
        """Turns an error of confluent-kafka into a `ClientError`; *poll* runs the callbacks."""
        try:
            yield
        except KafkaException as failure:
            poll(0)
            raise ClientError(self.cause(failure_in(failure))) from None


def failure_of(error: KafkaError) -> ClientFailure:
    """Returns *error* by Kafka's name."""
    return ClientFailure(KAFKA_NAMES.get(error.name(), error.name()), error.str())


def failure_in(failure: KafkaException) -> ClientFailure:
    """Returns the error inside an exception of confluent-kafka."""
    error = failure.args[0]
    if not isinstance(error, KafkaError):
        raise TypeError(f"a KafkaException without a KafkaError: {failure!r}")
    return failure_of(error)
