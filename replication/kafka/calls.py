"""Calls through one cluster's admin client: one timeout, retries, and errors that give the cause.

A call is one request for many keys. Each key gets a result or an error of its own.
"""

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial
from typing import Final, TypeVar

from py4j.java_gateway import JVMView

from replication.config.client_keys import with_defaults
from replication.kafka.api import (
    READER,
    SILENT_LEADER,
    Admin,
    Call,
    ClientError,
    ClientFailure,
    Records,
    RecordSender,
    join_names,
    topic_of,
)
from replication.kafka.confluent import ConfluentRecords, ConfluentSender, ConfluentTopics
from replication.kafka.diagnosis import (
    LISTENER,
    NOT_FOUND,
    RETRIABLE,
    UNREACHABLE,
    CallError,
    InterruptedCallError,
    call_error,
)
from replication.kafka.java_clients import JavaRecords, JavaSender, JavaTopics
from replication.kafka.jvm import has_our_classes, shared_jvm
from replication.kafka.reach import LOOK_SECONDS, bound_s, find_mismatch, reach_of
from replication.model import Isolation

# Opens the client that a cluster's properties ask for: Java's, or confluent-kafka's.
#
# Java's client connects where the connection is secured in any way: it reads every store, knows
# every login module, and is what connects the data. Without security, confluent-kafka does: it
# needs no JVM.

WRITER: Final = "replication-writer"
"""client.id of a producer whose file names none."""


def is_secured(properties: Mapping[str, str]) -> bool:
    """Returns whether the connection has a security protocol other than Kafka's default."""
    return properties.get("security.protocol", "PLAINTEXT").upper() != "PLAINTEXT"


def open_admin(
    properties: Mapping[str, str], client_id: str, timeout_s: float, *, prefers_java: bool = False
) -> Admin:
    """Opens an admin client.

    Raises:
        ClientError: No client can be created with these properties.
        ConfigError: There is no JVM with our classes, and confluent-kafka cannot connect this way.
        SetupError: Java does not start.
    """
    properties = {**with_defaults("admin", properties), "client.id": client_id}
    if (jvm := _jvm(properties, is_wanted=prefers_java)) is None:
        return ConfluentTopics(properties)
    timeout_ms = str(int(timeout_s * 1000))
    own = {"default.api.timeout.ms": timeout_ms, "request.timeout.ms": timeout_ms}
    return JavaTopics(jvm, {**properties, **own})


def open_records(properties: Mapping[str, str], isolation: Isolation) -> Records:
    """Opens a consumer that is in no group and commits nothing; raises as `open_admin` does."""
    properties = with_defaults("consumer", {"client.id": READER, **properties})
    if (jvm := _jvm(properties)) is None:
        return ConfluentRecords(properties, isolation)
    return JavaRecords(jvm, properties, isolation)


def open_sender(properties: Mapping[str, str], timeout_s: float) -> RecordSender:
    """Opens an idempotent producer that gives up a record after *timeout_s* seconds.

    Raises as `open_admin` does.
    """
    timeout_ms = str(int(timeout_s * 1000))
    own = {"linger.ms": "0", "delivery.timeout.ms": timeout_ms}  # each answer is awaited
    properties = with_defaults("producer", {"client.id": WRITER, **properties}) | own
    if (jvm := _jvm(properties)) is None:
        return ConfluentSender(properties)
    blocking = {"max.block.ms": timeout_ms, "request.timeout.ms": timeout_ms}
    return JavaSender(jvm, {**properties, **blocking})


def _jvm(properties: Mapping[str, str], *, is_wanted: bool = False) -> JVMView | None:
    """Returns the JVM whose Java client is to be used; None for confluent-kafka's."""
    if not is_wanted and not is_secured(properties):
        return None
    jvm = shared_jvm()
    return jvm if has_our_classes(jvm) else None


KeyT = TypeVar("KeyT")
ResultT = TypeVar("ResultT")

DEFAULT_TIMEOUT_MS: Final = "30000"
STALE: Final = frozenset({"FENCED_LEADER_EPOCH", "UNKNOWN_LEADER_EPOCH"})
"""librdkafka repeats such a request with the epoch that it remembers, until somebody reads the
metadata. A broker that has just started may still hand out old ones."""

POLL_SECONDS: Final = 0.1
"""Between two looks at a request: short, for a command waits for it."""

THREADS: Final = 4  # a call that waits for its timeout must not hold up all others


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
        self._properties = properties
        self._listener_is_known = False
        self._threads = ThreadPoolExecutor(THREADS, "kafka-admin")
        name = "|".join(filter(None, (properties.get("client.id"), client_id)))
        self._admin: Admin | None = None
        try:
            self._admin = open_admin(properties, name, self._timeout_s, prefers_java=prefers_java)
        except ClientError as error:
            raise self.error_of(Call("creating a client"), error.failure) from None

    @property
    def admin(self) -> Admin:
        """The client.

        Raises:
            InterruptedCallError: It is closed, as for a thread that outlives a stop.
        """
        if self._admin is None:
            raise InterruptedCallError(self._alias, Call("a call"))
        return self._admin

    def close(self) -> None:
        """Closes the connections; confluent-kafka's client does so when it is deleted."""
        self._threads.shutdown(wait=False)
        if self._admin is not None:
            self._admin.close()
        self._admin = None

    def results(
        self,
        call: Call,
        send: Callable[[Collection[KeyT], float], Mapping[KeyT, ResultT | ClientFailure]],
        keys: Iterable[KeyT],
        existing: Callable[[Collection[KeyT]], Collection[KeyT]] = lambda _: (),
    ) -> dict[KeyT, ResultT | ClientFailure]:
        """Collects the result or error of each key. Retriable errors are retried until the timeout.

        Args:
            call: What is tried, for the error.
            send: Sends one request for the given keys, with the given timeout in seconds.
            keys: What the request is about; without keys nothing is sent.
            existing: Which of the keys that are reported as not found exist all the same, because
                they are new and not every broker knows them, or because they have no leader.

        Raises:
            CallError: The cluster cannot be reached, or does not answer in time.
        """
        deadline = time.monotonic() + self._timeout_s
        results: dict[KeyT, ResultT | ClientFailure] = {}
        pending = list(keys)
        while pending:
            left_s = max(POLL_SECONDS, deadline - time.monotonic())
            found = self.ask(call, partial(send, pending), left_s)
            results.update((key, found[key]) for key in pending)
            codes = {
                key: failure.code
                for key in pending
                if isinstance(failure := results[key], ClientFailure)
            }
            for key in codes:
                self._raise_if_own(call, results[key])
            not_found = [key for key, code in codes.items() if code == NOT_FOUND]
            there = set(existing(not_found)) if not_found else set[KeyT]()
            hidden = [key for key in not_found if key in there]
            pending = [*hidden, *(key for key, code in codes.items() if code in RETRIABLE)]
            if time.monotonic() + POLL_SECONDS > deadline:
                if hidden:  # what exists must not be reported as not found
                    reason = (
                        f"no broker led it, or not every broker knew it, for {self._timeout_s:g} s"
                    )
                    failure = ClientFailure("LEADER_NOT_AVAILABLE", reason)
                    raise self.error_of(call.of(*hidden), failure)
                break
            if pending:
                if STALE.intersection(codes.values()):
                    self.ask(Call("reading the metadata"), self.admin.listing)
                time.sleep(POLL_SECONDS)
        return results

    def require(
        self,
        call: Call,
        results: Mapping[KeyT, ResultT | ClientFailure],
        tolerated: Collection[str] = (),
    ) -> dict[KeyT, ResultT]:
        """Returns the results without the *tolerated* errors; raises all other errors as one.

        Raises:
            CallError: Names the topics that the cluster rejects, unless waiting might help.
        """
        succeeded: dict[KeyT, ResultT] = {}
        failed: dict[KeyT, ClientFailure] = {}
        for key, result in results.items():
            if not isinstance(result, ClientFailure):
                succeeded[key] = result
            elif result.code not in tolerated:
                failed[key] = result
        if failed:
            of_text: dict[str, list[str]] = {}  # each once: thousands of keys may have the same
            for key, failure in failed.items():
                of_text.setdefault(failure.text, []).append(str(key))
            reasons = [f"{join_names(names)}: {text}" for text, names in of_text.items()]
            code = next(iter(failed.values())).code
            whole = ClientFailure(code, join_names(reasons, separator="; "))
            error = self.error_of(call.of(*failed), whole)
            may_pass = any(failure.code in RETRIABLE for failure in failed.values())
            rejected = {
                topic_of(key): str(self.error_of(call.of(key), failure))
                for key, failure in failed.items()
                if not may_pass
            }
            raise CallError(str(error), code, rejected, error.command)
        return succeeded

    def denial(self, call: Call) -> str:
        """Returns the text of a *call* that this user may not make, with the ACL that allows it."""
        return self.text_of(call, ClientFailure("TOPIC_AUTHORIZATION_FAILED", "not authorized"))

    def text_of(self, call: Call, failure: ClientFailure) -> str:
        """Returns what an operator reads of a *call* that failed, with the next step."""
        return str(self.error_of(call, failure))

    def error_of(self, call: Call, failure: ClientFailure) -> CallError:
        """Returns the error of a *call* that failed."""
        return call_error(self._alias, self._properties, call, failure)

    def ask(
        self, call: Call, send: Callable[[float], ResultT], timeout_s: float | None = None
    ) -> ResultT:
        """Makes one request, and looks while it is late whether the cluster answers at all.

        Args:
            call: What is tried, for the error.
            send: Sends the request with the given timeout in seconds, and waits for the answer.
            timeout_s: Instead of the client's.

        Raises:
            CallError: The request failed as a whole.
        """
        future = self._threads.submit(send, timeout_s or self._timeout_s)
        late_at = time.monotonic() + LOOK_SECONDS
        while not wait([future], POLL_SECONDS).done:
            if time.monotonic() >= late_at:
                silence = self.reach.given_up(self._patience_s)  # looks, if that is due
                if self.reach.is_open:
                    self._look_at_listener(call)
                if silence is not None:
                    raise self.error_of(call, silence)
        try:
            found = future.result()
        except ClientError as error:
            self._raise_if_own(call, error.failure)
            raise self.error_of(call, error.failure) from None
        self.reach.answered()
        return found

    def wait_for(self, missing: Callable[[], Collection[str]], call: Call) -> None:
        """Calls *missing* until it returns nothing.

        Raises:
            CallError: It still returned names when the timeout had passed.
        """
        deadline = time.monotonic() + self._timeout_s
        while names := missing():
            if time.monotonic() > deadline:
                reason = f"{join_names(names)} not visible after {self._timeout_s:g} s"
                raise self.error_of(call, ClientFailure("_TIMED_OUT", reason))
            time.sleep(POLL_SECONDS)

    def _raise_if_own(self, call: Call, failure: object) -> None:
        """Raises the error of *call* if the client has given it up, and no broker answered it."""
        if (
            not isinstance(failure, ClientFailure)
            or not failure.is_own
            or failure.code == SILENT_LEADER
        ):
            return
        if failure.code in UNREACHABLE:
            silence = self.reach.look()
            if self.reach.is_open:
                self._look_at_listener(call)
            if silence is not None:
                failure = silence
        raise self.error_of(call, failure) from None

    def _look_at_listener(self, call: Call) -> None:
        """Raises an error if the listener speaks another protocol; looks only once."""
        if self._listener_is_known:
            return
        self._listener_is_known = True
        if mismatch := find_mismatch(self._properties):
            failure = ClientFailure(LISTENER, mismatch.reason)
            raise call_error(self._alias, self._properties, call, failure, mismatch.step)


def timeout_s(properties: Mapping[str, str]) -> float:
    """Returns how long a whole call may take, in seconds, by the Java client's two keys for it."""
    shorter = properties.get("request.timeout.ms", DEFAULT_TIMEOUT_MS)
    return int(properties.get("default.api.timeout.ms", shorter)) / 1000
