"""Clients of the brokers that tests start."""

from replication.demo.brokers import Broker


def properties(broker: Broker) -> dict[str, str]:
    """How a client connects to *broker*."""
    return {"bootstrap.servers": broker.bootstrap}
