"""Asks where logs of today part from those that leaders of earlier epochs had."""

from collections.abc import Mapping
from typing import Final

from py4j.protocol import Py4JError, Py4JJavaError

from replication.config.clients.defaults import with_defaults
from replication.errors import SetupError
from replication.java import java_class
from replication.kafka.jvm import has_our_classes, java_map, shared_jvm
from replication.log import Log
from replication.model import TopicPartition
from replication.offsets.epochs import Stamp

log = Log(__name__)

ANSWER_SECONDS: Final = 10.0
"""How long brokers may take. Without an answer records are compared instead."""


def parted_at(
    properties: Mapping[str, str], copied: Mapping[TopicPartition, Stamp]
) -> dict[TopicPartition, int]:
    """Returns up to which offset each log is still the one that was copied; absent if unknown.

    An unclean leader election cuts the end off a log, and other records take the offsets. Only
    Java's client shows the answer; without a JVM nobody knows.

    Args:
        properties: Of a consumer of the cluster.
        copied: What leaders of earlier epochs had.
    """
    if not copied:
        return {}
    lines = (f"{tp.topic}\t{tp.partition}\t{at}\t{epoch}" for tp, (at, epoch) in copied.items())
    try:
        jvm = shared_jvm()
        if not has_our_classes(jvm):
            return {}
        own = with_defaults("consumer", {**properties, "client.id": "replication-epochs"})
        ends = java_class(jvm, "replication.calls.EpochEnds")
        answers = ends.ask(java_map(jvm, own), "\n".join(lines), int(ANSWER_SECONDS * 1000))
    except (Py4JError, SetupError) as error:
        java = error.java_exception if isinstance(error, Py4JJavaError) else error
        log.info("epoch_ends_unknown", text=str(java))
        return {}
    return {
        tp: at if answer == "=" else min(at, int(answer))
        for (tp, (at, _)), answer in zip(copied.items(), answers.splitlines(), strict=True)
        if answer != "?"
    }
