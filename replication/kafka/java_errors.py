"""Errors of Java's Kafka clients as values of ours."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from py4j.java_gateway import JavaObject, JVMView
from py4j.protocol import Py4JJavaError

from replication.java import java_class
from replication.kafka.api import ClientError, ClientFailure
from replication.kafka.jvm import has_our_classes

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
