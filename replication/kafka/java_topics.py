"""Java's admin client with the methods of confluent-kafka's that `Cluster` calls.

It speaks every security protocol of Java's clients. See `replication/jvm/calls/AdminCalls.java`.
"""

import json
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from threading import Lock
from types import SimpleNamespace
from typing import Any, Final, cast

from confluent_kafka import IsolationLevel, KafkaException, TopicCollection
from confluent_kafka import TopicPartition as KafkaTopicPartition
from confluent_kafka.admin import ConfigResource, ConfigSource, NewPartitions, NewTopic, OffsetSpec
from py4j.java_gateway import JVMView
from py4j.protocol import Py4JError

from replication.kafka.diagnosis import kafka_error
from replication.kafka.java_errors import error_of, java_errors
from replication.kafka.jvm import java_map

THREADS: Final = 4  # a call that waits for its timeout must not hold up all others
TIMES: Final = {OffsetSpec.latest(): -1, OffsetSpec.earliest(): -2}  # the numbers of the protocol
SOURCES: Final = frozenset(source.name for source in ConfigSource)

Futures = dict[Any, "Future[Any]"]


class JavaTopics:
    """The client. Threads may share it.

    Args:
        jvm: py4j's view of a JVM that has our classes.
        properties: Client properties in Java's key space.

    Raises:
        KafkaException: No client can be created with these properties.
    """

    def __init__(self, jvm: JVMView, properties: Mapping[str, str]) -> None:
        self._jvm = jvm
        self._properties = properties
        self._threads = ThreadPoolExecutor(THREADS, "kafka-admin")
        self._lock = Lock()
        try:
            self._client = self._new_client()
        except KafkaException as failure:
            if kafka_error(failure).name() != "_RESOLVE":
                raise
            self._client = None  # each call tries again: a name server may be down for a while

    def close(self) -> None:
        """Closes the connections. Without it they end with the object, when the JVM collects it."""
        self._threads.shutdown(wait=False)
        if self._client is not None:
            with suppress(Py4JError):  # the JVM has ended
                self._client.close()

    def _new_client(self) -> Any:  # noqa: ANN401 - a Java object
        settings = java_map(self._jvm, self._properties)
        with java_errors(self._jvm):
            return self._jvm.replication.calls.AdminCalls(settings)

    @property
    def _java(self) -> Any:  # noqa: ANN401 - a Java object
        with self._lock:
            if self._client is None:
                self._client = self._new_client()
            return self._client

    def poll(self, timeout: float) -> None:
        """Pauses the caller: Java's client runs no callbacks in its thread."""
        time.sleep(timeout)

    def list_topics(self, topic: str | None = None, *, timeout: float) -> Any:  # noqa: ANN401
        """Returns the cluster's id, its brokers by their ids, and the names of its topics.

        With a *topic*, none of the names.
        """
        call = "cluster" if topic is None else "brokers"
        answer = self._call(call, [""], timeout)[""].result()
        brokers = {
            number: SimpleNamespace(host=host, port=port)
            for number, host, port in answer["brokers"]
        }
        return SimpleNamespace(
            cluster_id=answer["id"], brokers=brokers, topics=answer.get("topics", [])
        )

    def describe_topics(
        self,
        topics: TopicCollection,
        request_timeout: float,
        *,
        include_authorized_operations: bool = False,
    ) -> Futures:
        """Describes topics: ids, partitions, whether each has a leader; or the user's rights."""
        names = list(topics.topic_names)
        if include_authorized_operations:
            call = "authorizedOperations"
            return self._call(call, names, request_timeout, names, _operations)
        return self._call("describeTopics", names, request_timeout, names, _topic)

    def list_offsets(
        self,
        specs: Mapping[KafkaTopicPartition, OffsetSpec],
        isolation_level: IsolationLevel,
        request_timeout: float,
    ) -> Futures:
        """Returns the offset that each spec asks for."""
        is_committed = isolation_level == IsolationLevel.READ_COMMITTED
        asked = [[tp.topic, tp.partition, _time(spec)] for tp, spec in specs.items()]

        def send(partitions: str, timeout_ms: int) -> str:
            answers = json.loads(self._java.listOffsets(partitions, is_committed, timeout_ms))
            return json.dumps(dict(enumerate(answers)))

        futures = self._call(send, range(len(asked)), request_timeout, asked, _offset)
        return dict(zip(specs, futures.values(), strict=True))

    def create_topics(
        self, topics: Iterable[NewTopic], request_timeout: float, *, validate_only: bool = False
    ) -> Futures:
        """Creates topics, or only asks whether the cluster would."""
        wanted = {
            topic.topic: {
                "partitions": topic.num_partitions,
                "factor": topic.replication_factor,
                "configs": topic.config or {},
            }
            for topic in topics
        }
        call = "validateTopics" if validate_only else "createTopics"
        return self._call(call, wanted, request_timeout, wanted)

    def delete_topics(self, topics: list[str], request_timeout: float) -> Futures:
        """Deletes topics."""
        return self._call("deleteTopics", topics, request_timeout, topics)

    def create_partitions(self, topics: Iterable[NewPartitions], request_timeout: float) -> Futures:
        """Grows topics."""
        news: Any = topics  # the type stubs know no attributes
        counts = {new.topic: new.new_total_count for new in news}
        return self._call("createPartitions", counts, request_timeout, counts)

    def describe_configs(
        self, resources: Iterable[ConfigResource], request_timeout: float
    ) -> Futures:
        """Describes all settings of topics, or of brokers."""
        by_name = {resource.name: resource for resource in resources}
        kinds = {resource.restype for resource in by_name.values()}
        call = "describeBrokers" if kinds == {ConfigResource.Type.BROKER} else "describeConfigs"
        futures = self._call(call, by_name, request_timeout, list(by_name), _settings)
        return {by_name[name]: future for name, future in futures.items()}

    def incremental_alter_configs(
        self, resources: Iterable[ConfigResource], request_timeout: float
    ) -> Futures:
        """Changes settings of topics."""
        by_name = {resource.name: resource for resource in resources}
        changes = {
            name: {entry.name: entry.value for entry in resource.incremental_configs}
            for name, resource in by_name.items()
        }
        futures = self._call("alterConfigs", by_name, request_timeout, changes)
        return {by_name[name]: future for name, future in futures.items()}

    def _call(
        self,
        send: str | Callable[..., str],
        keys: Iterable[Any],
        timeout_s: float,
        argument: object = None,
        read: Callable[[Any], Any] = lambda answer: answer,
    ) -> Futures:
        """Makes a future for each of *keys*; *send* runs in a thread and answers for all.

        *send* is a function, or the name of a method of the Java object.
        """
        futures: Futures = {key: Future() for key in keys}
        arguments = [] if argument is None else [json.dumps(argument)]

        def run() -> None:
            try:
                method = getattr(self._java, send) if isinstance(send, str) else send
                with java_errors(self._jvm):
                    answers = json.loads(method(*arguments, int(timeout_s * 1000)))
                for key, future in futures.items():
                    _settle(future, answers[str(key)], read)
            except Exception as failure:  # noqa: BLE001 - raised again in the caller's thread
                for future in futures.values():
                    if not future.done():
                        future.set_exception(failure)

        self._threads.submit(run)
        return futures


def _settle(future: "Future[Any]", answer: Mapping[str, Any], read: Callable[[Any], Any]) -> None:
    if "code" in answer:
        future.set_exception(KafkaException(error_of(answer)))
    else:
        future.set_result(read(answer["ok"]))


def _time(spec: OffsetSpec) -> int:
    return TIMES[spec] if spec in TIMES else cast("Any", spec).timestamp


def _topic(answer: Mapping[str, Any]) -> SimpleNamespace:
    partitions = [
        SimpleNamespace(id=partition, leader=None if leader is None else SimpleNamespace(id=leader))
        for partition, leader in answer["partitions"]
    ]
    return SimpleNamespace(topic_id=answer["id"], partitions=partitions)


def _operations(answer: list[str] | None) -> SimpleNamespace:
    operations = None if answer is None else [SimpleNamespace(name=name) for name in answer]
    return SimpleNamespace(authorized_operations=operations)


def _offset(answer: int) -> SimpleNamespace:
    return SimpleNamespace(offset=answer)


def _settings(answer: Mapping[str, tuple[str | None, str, bool, bool]]) -> dict[str, Any]:
    return {
        key: SimpleNamespace(
            value=value,
            source=ConfigSource[source].value if source in SOURCES else ConfigSource.UNKNOWN_CONFIG,
            is_read_only=is_read_only,
            is_sensitive=is_sensitive,
        )
        for key, (value, source, is_read_only, is_sensitive) in answer.items()
    }
