"""Records that carry ids of schemas, and a consumer that decodes them by a registry."""

import json
from collections.abc import Iterable, Iterator

from replication.demo.brokers import Broker
from replication.demo.topic_log import TopicLog
from replication.demo.workload import ProducedRecord
from tests.support.schema_registry import FakeRegistry


def schema(name: str) -> str:
    """The text of an Avro schema with that name."""
    return json.dumps({"type": "record", "name": name, "fields": []})


def framed(number: int, text: str) -> bytes:
    """*text* behind an id."""
    return b"\0" + number.to_bytes(4, "big") + text.encode()


def records(
    registry: FakeRegistry, subject: str, name: str, numbers: Iterable[int], partition: int = 0
) -> Iterator[ProducedRecord]:
    """Records of a schema, which say its name and count."""
    number = registry.register(subject, schema(name))
    for each in numbers:
        yield ProducedRecord(
            partition=partition, key=b"k%d" % each, value=framed(number, f"{name} {each}")
        )


def decoded(broker: Broker, topic: str, registry: FakeRegistry, partition: int = 0) -> list[str]:
    """What a consumer reads of a partition: it asks *registry* for the schema of each value."""
    found = []
    for record in TopicLog(broker.bootstrap, topic, "read_committed").records(partition):
        value = record.content.value or b""
        text = value[5:].decode()
        known = registry.context.schemas[int.from_bytes(value[1:5], "big")]
        assert json.loads(known["schema"])["name"] == text.partition(" ")[0]
        found.append(text)
    return found


def said(name: str, numbers: Iterable[int]) -> list[str]:
    """What `decoded` finds of `records`."""
    return [f"{name} {number}" for number in numbers]
