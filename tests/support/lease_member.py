"""A member of a lease's group. Readers of the status topic believe only who is in it."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from confluent_kafka import Consumer

from replication.demo.brokers import Broker
from replication.model import Flow
from replication.state.claim import LeaseName
from tests.support.waiting import wait_until

MEMBER: Final = "member"
JOIN_SECONDS: Final = 60.0


@contextmanager
def lease_member(target: Broker, flow: Flow) -> Iterator[None]:
    """`MEMBER` is in the group of *flow*'s lease for the block; its status topic must be there."""
    joined = threading.Event()
    properties = {
        "bootstrap.servers": target.bootstrap,
        "group.id": LeaseName(flow).group,
        "group.instance.id": MEMBER,
    }
    consumer = Consumer(properties)
    consumer.subscribe([rf"^mm2-status\.{flow.source}\."], on_assign=lambda *_: joined.set())

    def is_member() -> bool:
        consumer.poll(0.1)
        return joined.is_set()

    try:
        wait_until(is_member, JOIN_SECONDS)
        yield
    finally:
        consumer.close()
