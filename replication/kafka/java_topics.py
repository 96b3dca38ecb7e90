"""Java's admin client behind `replication.kafka.api.Admin`: one round trip to the JVM for a call.

It speaks every security protocol of Java's clients. See `replication/jvm/calls/AdminCalls.java`.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from functools import lru_cache
from threading import Lock
from typing import Any, Final, TypeVar

from py4j.java_gateway import JavaObject, JVMView
from py4j.protocol import Py4JError

from replication.java import java_class
from replication.kafka.api import (
    ORIGINS,
    Answers,
    ClientError,
    ClientFailure,
    Kind,
    Listing,
    LogOffset,
    Settings,
)
from replication.kafka.java_errors import java_errors, read_answer
from replication.kafka.jvm import java_map
from replication.model import Isolation, NewTopic, Topic, TopicPartition, TopicSetting

ResultT = TypeVar("ResultT")

ONLY: Final = ""
"""The key of an answer about the cluster."""


class JavaTopics:
    """The admin client; see `api.Admin`.

    Args:
        jvm: py4j's view of a JVM that has our classes.
        properties: Client properties in Java's key space.

    Raises:
        ClientError: No client can be created with these properties.
    """

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
            with suppress(Py4JError):  # the JVM has ended
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
        """Lists brokers and topics."""
        return self._about_cluster("cluster", timeout_s)

    def brokers(self, timeout_s: float) -> Mapping[int, str]:
        """Lists the brokers only."""
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
        """Returns what this user may do with topics."""
        return self._ask(_rights, "authorizedOperations", timeout_s, list(topics))

    def members(self, groups: Collection[str], timeout_s: float) -> Answers[frozenset[str]]:
        """Returns the ids of the members of consumer groups."""
        return self._ask(frozenset, "members", timeout_s, list(groups))

    def offsets(
        self, times: Mapping[TopicPartition, int], isolation: Isolation, timeout_s: float
    ) -> dict[TopicPartition, LogOffset | ClientFailure]:
        """Returns the offsets that *times* ask for."""
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
        """Creates topics, or only asks whether the cluster would."""
        wanted = {
            new.name: [new.partitions, new.replication_factor, dict(new.configs)] for new in topics
        }
        return self._ask(_nothing, "createTopics", timeout_s, wanted, validate_only)

    def delete(self, topics: Collection[str], timeout_s: float) -> Answers[None]:
        """Deletes topics."""
        return self._ask(_nothing, "deleteTopics", timeout_s, list(topics))

    def grow(self, counts: Mapping[str, int], timeout_s: float) -> Answers[None]:
        """Adds partitions to topics."""
        return self._ask(_nothing, "createPartitions", timeout_s, counts)

    def settings(self, kind: Kind, names: Collection[str], timeout_s: float) -> Answers[Settings]:
        """Reads all settings of topics, or of brokers."""
        return self._ask(_settings, "describeConfigs", timeout_s, list(names), kind)

    def alter(
        self, changes: Mapping[str, Mapping[str, str | None]], timeout_s: float
    ) -> Answers[None]:
        """Changes settings of topics."""
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
