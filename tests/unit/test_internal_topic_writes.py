"""A record of an internal topic counts as written only if the cluster has said so."""

import pytest

from replication.errors import ClusterError
from replication.kafka import internal_topic
from replication.kafka.api import ClientFailure, Done
from replication.kafka.cluster import Cluster
from replication.kafka.internal_topic import InternalTopic
from replication.kafka.reach import reach_of
from replication.model import TopicPartition

PROPERTIES = {"bootstrap.servers": "127.0.0.1:1"}
TOO_LARGE = ClientFailure("MESSAGE_TOO_LARGE", "too large")


class Sender:
    """A client that tells the fates of some records and, as after a suspension, of others none."""

    def __init__(self, fates: dict[bytes, ClientFailure | None]) -> None:
        self._fates = fates

    def connect(self, topic: str) -> None:
        """Connects at once."""

    def send(
        self,
        _to: TopicPartition,
        key: bytes,
        _value: bytes | None,
        done: Done,
    ) -> None:
        if key in self._fates:
            done(self._fates[key], -1)

    def flush(self, timeout_s: float) -> None:
        """Ends by its time."""


def topic(monkeypatch: pytest.MonkeyPatch, **fates: ClientFailure | None) -> InternalTopic:
    sender = Sender({key.encode(): fate for key, fate in fates.items()})
    monkeypatch.setattr(internal_topic, "open_sender", lambda *_: sender)
    reach_of(PROPERTIES).answered()
    return InternalTopic(
        Cluster("B", PROPERTIES),
        "heartbeats",
        producer=PROPERTIES,
        consumer=PROPERTIES,
        replication_factor=1,
    )


def test_what_was_not_answered_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ClusterError, match="writing to topic heartbeats failed: no answer"):
        topic(monkeypatch, a=None).write([(b"a", b"1"), (b"b", b"2")])


def test_a_record_that_is_too_large_is_told_and_the_others_are_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    errors = topic(monkeypatch, a=None, b=TOO_LARGE).write_each([(b"a", b"1"), (b"b", b"2")])

    assert [(at, error.code) for at, error in errors.items()] == [(1, "MESSAGE_TOO_LARGE")]
