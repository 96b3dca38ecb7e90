"""A cluster through Java's clients: its topics, its records, a sender, their errors.

They speak every security protocol. The halves in Java are in `replication/jvm/calls`; a JVM that is
given here has our classes. No client can be created with wrong properties: that is a `ClientError`.
"""

import json
import time
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import lru_cache
from struct import Struct
from threading import Lock
from typing import Any, Final, TypeVar

from py4j.java_gateway import JavaObject, JVMView
from py4j.protocol import Py4JJavaError

from replication.java import JVM_GONE, java_class
from replication.kafka.api import (
    ORIGINS,
    Answers,
    ClientError,
    ClientFailure,
    Done,
    KafkaRecord,
    Kind,
    Listing,
    LogOffset,
    Settings,
)
from replication.kafka.jvm import has_our_classes, java_map
from replication.model import Isolation, NewTopic, Topic, TopicPartition, TopicSetting

ResultT = TypeVar("ResultT")


def failure_in(answer: Mapping[str, Any]) -> ClientFailure | None:
    """Returns the error that ``ClientErrors.java`` wrote into *answer*; None if there is none."""
    return ClientFailure(answer["code"], answer["text"]) if "code" in answer else None


def read_answer(
    answer: Mapping[str, Any], read: Callable[[Any], ResultT]
) -> ResultT | ClientFailure:
    """Reads what ``Settled.java`` wrote: a result, which *read* takes, or an error."""
    return failure_in(answer) or read(answer["ok"])


@contextmanager
def java_errors(jvm: JVMView) -> Iterator[None]:
    """Turns an exception of a Java client into a `ClientError`."""
    try:
        yield
    except Py4JJavaError as failure:
        raise ClientError(_failure_of(jvm, failure.java_exception)) from None


def _failure_of(jvm: JVMView, thrown: JavaObject) -> ClientFailure:
    if has_our_classes(jvm):
        ours = java_class(jvm, "replication.calls.ClientErrors")
        return ClientFailure(**json.loads(ours.json(thrown)))
    while (cause := thrown.getCause()) is not None:  # the future and the client wrap it
        thrown = cause
    errors = java_class(jvm, "org.apache.kafka.common.protocol.Errors")
    code = str(errors.forException(thrown).name())
    code = "_TIMED_OUT" if code == "REQUEST_TIMED_OUT" else code  # mostly the client's own
    return ClientFailure(code, str(thrown.getMessage() or thrown.toString()))


COUNT: Final = Struct(">i")
RECORD: Final = Struct(">iqq?i")
"""Partition, offset, timestamp, whether the cluster has set it, leader epoch."""
SETTINGS: Final = {
    "auto.offset.reset": "earliest",  # retention may delete the first offset before it is read
    "enable.auto.commit": "false",
    "fetch.max.bytes": "16777216",  # what one round trip brings to Python at most
    "max.poll.records": "10",  # by which a round trip may exceed that, each perhaps of megabytes
    "fetch.max.wait.ms": "50",  # for the end of a partition that holds nothing more
}


class JavaRecords:
    """The consumer; see `api.Records`. ``RecordReader.java`` brings many records a round trip."""

    def __init__(self, jvm: JVMView, properties: Mapping[str, str], isolation: Isolation) -> None:
        self._jvm = jvm
        self._partitions: list[TopicPartition] = []
        self._records: deque[tuple[TopicPartition, KafkaRecord | None]] = deque()
        self._dropped: set[int] = set()
        self._ended: set[int] = set()
        self._polls = 0
        settings = java_map(jvm, {**properties, **SETTINGS, "isolation.level": isolation})
        with java_errors(jvm):
            self._java = java_class(jvm, "replication.calls.RecordReader")(settings)

    def close(self) -> None:
        with java_errors(self._jvm):
            self._java.close()

    def assign(self, starts: Mapping[TopicPartition, int]) -> None:
        self._partitions = list(starts)
        self._records.clear()
        self._dropped = set()
        self._ended = set()
        self._polls = 0
        with java_errors(self._jvm):
            self._java.clear()
            for tp, offset in starts.items():
                self._java.add(tp.topic, tp.partition, offset)

    def drop(self, tp: TopicPartition) -> None:
        """Reads *tp* no longer, from the next request on."""
        number = self._partitions.index(tp)
        self._ended.add(number)
        self._dropped.add(number)

    def bounds(self, tp: TopicPartition, timeout_s: float) -> tuple[int, int]:
        with java_errors(self._jvm):
            first, end = self._java.bounds(tp.topic, tp.partition, int(timeout_s * 1000))
        return first, end

    def poll(self, timeout_s: float) -> tuple[TopicPartition, KafkaRecord | None] | None:
        if not self._records and len(self._ended) == len(self._partitions):
            time.sleep(timeout_s)  # a pause of the caller's: there is nothing to read
        elif not self._records:
            with java_errors(self._jvm):
                if self._dropped:
                    self._java.drop(",".join(map(str, sorted(self._dropped))))
                    self._dropped.clear()
                self._polls += 1
                found = self._java.poll(self._polls, int(timeout_s * 1000))
            self._records.extend(self._read(found))
        return self._records.popleft() if self._records else None

    def cause(self, failure: ClientFailure) -> ClientFailure:
        """Returns *failure*: Java's client names its causes itself."""
        return failure

    def _read(self, data: bytes) -> Iterator[tuple[TopicPartition, KafkaRecord | None]]:
        """Yields what `RecordReader.poll` wrote: records, then ends."""
        at = 0

        def count() -> int:
            nonlocal at
            at += COUNT.size
            return int(COUNT.unpack_from(data, at - COUNT.size)[0])

        def content() -> bytes | None:
            nonlocal at
            size = count()
            if size < 0:
                return None
            at += size
            return bytes(data[at - size : at])

        for _ in range(count()):
            number, offset, timestamp_ms, is_append_time, epoch = RECORD.unpack_from(data, at)
            at += RECORD.size
            key, value = content(), content()
            headers = tuple(((content() or b"").decode(), content()) for _ in range(count()))
            is_append_time = is_append_time and timestamp_ms >= 0
            record = KafkaRecord(
                offset, timestamp_ms, key, value, headers, is_append_time,
                epoch if epoch >= 0 else None,
            )  # fmt: skip
            yield self._partitions[number], record
        for _ in range(count()):
            yield self._partitions[count()], None


WAIT_SECONDS = 0.5


class JavaSender:
    """The producer; see `api.RecordSender` and ``RecordWriter.java``.

    It is closed when the JVM collects it.
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

    def send(self, to: TopicPartition, key: bytes, value: bytes | None, done: Done) -> None:
        """Sends a record, and calls those functions whose records' fates are known by now."""
        self._sent += 1
        self._waiting[self._sent] = done
        with java_errors(self._jvm):
            self._java.send(self._sent, to.topic, to.partition, key, value)
        self._settle(0)

    def flush(self, timeout_s: float) -> None:
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


ONLY: Final = ""
"""The key of an answer about the cluster."""


class JavaTopics:
    """The admin client; see `api.Admin` and ``AdminCalls.java``: one round trip for a call."""

    def __init__(self, jvm: JVMView, properties: Mapping[str, str]) -> None:
        self._jvm = jvm
        self._properties = properties
        self._lock = Lock()
        self._client: JavaObject | None = None
        self._described = lru_cache(maxsize=1)(_described)  # threads ask for others meanwhile
        try:
            self._client = self._new_client()
        except ClientError as error:
            if error.failure.code != "_RESOLVE":
                raise  # else each call tries again: a name server may be down for a while

    def close(self) -> None:
        """Closes the connections. Without it they end with the object, when the JVM collects it."""
        if self._client is not None:
            with suppress(*JVM_GONE):  # the JVM has ended
                self._client.close()

    def _new_client(self) -> JavaObject:
        settings = java_map(self._jvm, self._properties)
        with java_errors(self._jvm):
            return java_class(self._jvm, "replication.calls.AdminCalls")(settings)

    @property
    def _java(self) -> JavaObject:
        with self._lock:
            if self._client is None:
                self._client = self._new_client()
            return self._client

    def listing(self, timeout_s: float) -> Listing:
        return self._about_cluster("cluster", timeout_s)

    def brokers(self, timeout_s: float) -> Mapping[int, str]:
        return self._about_cluster("brokers", timeout_s).brokers

    def _about_cluster(self, method: str, timeout_s: float) -> Listing:
        found = self._ask(_listing, method, timeout_s)[ONLY]
        if isinstance(found, ClientFailure):
            raise ClientError(found)
        return found

    def topics(self, names: Collection[str], timeout_s: float) -> Answers[Topic]:
        """Describes topics. Those that are looked at every few seconds are mostly as before."""
        return dict(self._described(self._text("describeTopics", timeout_s, list(names))))

    def rights(self, topics: Collection[str], timeout_s: float) -> Answers[frozenset[str] | None]:
        return self._ask(_rights, "authorizedOperations", timeout_s, list(topics))

    def members(self, groups: Collection[str], timeout_s: float) -> Answers[frozenset[str]]:
        return self._ask(frozenset, "members", timeout_s, list(groups))

    def offsets(
        self, times: Mapping[TopicPartition, int], isolation: Isolation, timeout_s: float
    ) -> dict[TopicPartition, LogOffset | ClientFailure]:
        asked = [[tp.topic, tp.partition, time] for tp, time in times.items()]
        is_committed = isolation == "read_committed"
        answers = self._call("listOffsets", timeout_s, asked, is_committed)
        return {
            tp: read_answer(answer, lambda found: LogOffset(*found))
            for tp, answer in zip(times, answers, strict=True)
        }

    def ends(
        self, partitions: Collection[TopicPartition], isolation: Isolation, timeout_s: float
    ) -> dict[TopicPartition, int | ClientFailure]:
        """Returns where logs end; describes nothing, and needs no JSON of a row each."""
        numbers: dict[str, list[int]] = defaultdict(list)
        for topic, number in partitions:
            numbers[topic].append(number)
        lines = ("\t".join([topic, *map(str, found)]) for topic, found in numbers.items())
        is_committed, timeout_ms = isolation == "read_committed", int(timeout_s * 1000)
        with java_errors(self._jvm):
            answer = self._java.logEnds("\n".join(lines), is_committed, timeout_ms)
        return {
            TopicPartition(topic, number): int(end) if end.isdigit() else _failure(end)
            for (topic, asked), line in zip(numbers.items(), answer.splitlines(), strict=True)
            for number, end in zip(asked, line.split("\t")[1:], strict=True)
        }

    def create(
        self, topics: Collection[NewTopic], timeout_s: float, *, validate_only: bool = False
    ) -> Answers[None]:
        wanted = {
            new.name: [new.partitions, new.replication_factor, dict(new.configs)] for new in topics
        }
        return self._ask(_nothing, "createTopics", timeout_s, wanted, validate_only)

    def delete(self, topics: Collection[str], timeout_s: float) -> Answers[None]:
        return self._ask(_nothing, "deleteTopics", timeout_s, list(topics))

    def grow(self, counts: Mapping[str, int], timeout_s: float) -> Answers[None]:
        return self._ask(_nothing, "createPartitions", timeout_s, counts)

    def settings(self, kind: Kind, names: Collection[str], timeout_s: float) -> Answers[Settings]:
        return self._ask(_settings, "describeConfigs", timeout_s, list(names), kind)

    def alter(
        self, changes: Mapping[str, Mapping[str, str | None]], timeout_s: float
    ) -> Answers[None]:
        return self._ask(_nothing, "alterConfigs", timeout_s, changes)

    def _ask(
        self, read: Callable[[Any], ResultT], method: str, timeout_s: float, *arguments: object
    ) -> Answers[ResultT]:
        """Calls a method of the Java object, and reads its answer about each key."""
        return _read(read, self._call(method, timeout_s, *arguments))

    def _call(self, method: str, timeout_s: float, *arguments: object) -> Any:  # noqa: ANN401 - JSON
        """Calls a method as `_text` does, and parses its answer."""
        return json.loads(self._text(method, timeout_s, *arguments))

    def _text(self, method: str, timeout_s: float, *arguments: object) -> str:
        """Calls a method; flags and words are passed as they are, everything else as JSON."""
        passed = [one if isinstance(one, bool | str) else json.dumps(one) for one in arguments]
        java = getattr(self._java, method)
        with java_errors(self._jvm):
            return str(java(*passed, int(timeout_s * 1000)))


def _read(
    read: Callable[[Any], ResultT], answers: Mapping[str, Mapping[str, Any]]
) -> Answers[ResultT]:
    return {key: read_answer(answer, read) for key, answer in answers.items()}


def _described(text: str) -> Answers[Topic]:
    return _read(_topic, json.loads(text))


def _failure(marked: str) -> ClientFailure:
    code = marked.removeprefix("!")
    return ClientFailure(code, code)


def _listing(answer: Mapping[str, Any]) -> Listing:
    brokers = {number: f"{host}:{port}" for number, host, port in answer["brokers"]}
    return Listing(answer["id"], brokers, frozenset(answer.get("topics", ())))


def _topic(answer: Mapping[str, Any]) -> Topic:
    leaders = tuple(answer["leaders"])
    without = frozenset(partition for partition, leader in enumerate(leaders) if leader is None)
    in_sync = tuple((found, wanted) for found, wanted in answer["inSync"])
    return Topic(answer["name"], answer["id"], len(leaders), without, leaders, in_sync)


def _rights(answer: list[str] | None) -> frozenset[str] | None:
    return None if answer is None else frozenset(answer)


def _settings(answer: Mapping[str, tuple[str | None, str, bool, bool]]) -> Settings:
    return {
        key: TopicSetting(value, ORIGINS.get(source, "unknown"), is_read_only, is_sensitive)
        for key, (value, source, is_read_only, is_sensitive) in answer.items()
    }


def _nothing(_: object) -> None:
    return None
