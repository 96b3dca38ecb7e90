"""Errors of Java's Kafka clients as confluent-kafka's, so that callers know one kind only."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from py4j.java_gateway import JVMView
from py4j.protocol import Py4JJavaError


def error_of(document: Mapping[str, Any]) -> KafkaError:
    """Returns the error that `ClientErrors.java` wrote: a broker's code or one of librdkafka's."""
    code = document["code"]
    number = code if isinstance(code, int) else getattr(KafkaError, code)
    return KafkaError(number, document["text"])


@contextmanager
def java_errors(jvm: JVMView) -> Iterator[None]:
    """Turns an exception of a Java client into a ``KafkaException``."""
    try:
        yield
    except Py4JJavaError as failure:
        document = json.loads(jvm.replication.calls.ClientErrors.json(failure.java_exception))
        raise KafkaException(error_of(document)) from None
