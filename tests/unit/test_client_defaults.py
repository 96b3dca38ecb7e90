"""Every Kafka client of the mirror begins with one table of defaults."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from replication.config.client_keys import (
    BY_ROLE,
    DEFAULTS,
    QUICK_RETURN,
    Role,
    librdkafka_properties,
    with_defaults,
)
from replication.control.clients import clients_of
from replication.model import Flow, TopicPartition
from replication.spark.kafka_options import sink_options, source_options
from tests.support.local import REPOSITORY
from tests.support.settings import ONE_FLOW, parse_settings

CODE = REPOSITORY / "replication"
OPENED = re.compile(
    r"(?<![\w.])(?:Consumer|Producer|AdminClient|(?:Confluent|Java)(?:Records|Sender|Topics)|Ownership)\("
    r'|\.(?:RecordReader|RecordWriter|AdminCalls|Ownership)(?:"\))?\(|AdminClient\.create\('
    r'|\.format\("kafka"\)'
)
"""Where a client is created, or an object that creates one of its properties."""

FROM_THE_TABLE = re.compile(r"(?<!def )\b(?:with_defaults|source_options|sink_options|sink)\(")
GIVEN = {
    "confluent.py",
    "java_clients.py",
    "ownership.py",
}
"""Of these, `kafka/calls.py` and `state/claim.py` give the properties."""

OF_AN_ANSWER = {"delivery.timeout.ms", "linger.ms"}
"""Of the producers of internal topics, which wait for each answer."""


def code() -> Iterator[tuple[Path, str]]:
    for path in sorted([*CODE.rglob("*.py"), *CODE.rglob("*.java")]):
        if "demo" not in path.parts:  # which the product never opens
            yield path, path.read_text()


def test_no_client_is_opened_without_the_table() -> None:
    opened = {path.name for path, text in code() if path.suffix == ".py" and OPENED.search(text)}
    tabled = {path.name for path, text in code() if FROM_THE_TABLE.search(text)}

    assert {"calls.py", "claim.py", "java_admin.py", "generation.py", "counting.py"} <= opened
    assert opened - tabled == GIVEN


def test_no_default_is_named_elsewhere() -> None:
    keys = {key for defaults in DEFAULTS.values() for key in defaults} - OF_AN_ANSWER
    named = {
        (path.relative_to(CODE).as_posix(), key)
        for path, text in code()
        for key in keys
        if f'"{key}"' in text and path.name != "client_keys.py"
    }

    assert named == set()


@pytest.mark.parametrize("role", DEFAULTS)
def test_a_default_is_a_property_of_that_client_and_the_file_wins(role: Role) -> None:
    defaults = DEFAULTS[role]

    assert defaults.keys() <= BY_ROLE[role]
    assert defaults["metadata.recovery.strategy"] == "rebootstrap"
    for key in defaults:
        assert with_defaults(role, {key: "own", "x": "y"}) == {**defaults, key: "own", "x": "y"}


def test_spark_gets_the_defaults_of_source_and_sink() -> None:
    source = source_options({}, {TopicPartition("t", 0): 0})
    sink = sink_options({}, Flow("A", "B"), intercepted=True)

    for options, role in ((source, "consumer"), (sink, "producer")):
        expected = {f"kafka.{key}": value for key, value in DEFAULTS[role].items()}  # type: ignore[index]
        assert options.items() >= expected.items()


def test_no_consumer_creates_a_topic_whatever_the_file_says() -> None:
    config = parse_settings({**ONE_FLOW, "A.consumer.allow.auto.create.topics": "true"})

    consumers = [properties for _, role, properties in clients_of(config) if role == "consumer"]
    assert {one["allow.auto.create.topics"] for one in consumers} == {"false"}
    assert "A.consumer.allow.auto.create.topics" in "".join(config.warnings)


def test_confluent_kafka_gets_the_same() -> None:
    converted = librdkafka_properties(with_defaults("consumer", {}))

    assert converted["allow.auto.create.topics"] == "false"
    assert converted["metadata.recovery.strategy"] == "rebootstrap"
    assert converted["enable.metrics.push"] == "false"
    assert converted["reconnect.backoff.max.ms"] == "1000"


def test_addresses_are_asked_again_while_a_pause_between_connections_lasts() -> None:
    """At no other moment does Java's client begin anew. Both have a jitter of 20 %."""
    for defaults in (*DEFAULTS.values(), {**DEFAULTS["admin"], **QUICK_RETURN}):
        longest = 1.2 * int(defaults["retry.backoff.max.ms"])
        assert 2 * longest < int(defaults["reconnect.backoff.max.ms"])


def test_a_longer_pause_between_connections_has_no_shorter_limit() -> None:
    assert "reconnect.backoff.max.ms" not in with_defaults("admin", {"reconnect.backoff.ms": "2"})
    assert "retry.backoff.max.ms" not in with_defaults("admin", {"retry.backoff.ms": "2"})
