"""Finds free ports of this machine for the brokers."""

import random
import socket

from replication.errors import SetupError

HOST = "127.0.0.1"
# Below the ephemeral range: the kernel would otherwise sooner or later assign a stopped broker's
# port to a client that keeps connecting to it, and the client would connect to itself.
PORTS = range(10_000, 32_000)


def free_port() -> int:
    """Returns a port that is free now; another process may still take it first."""
    free = next((port for port in random.sample(PORTS, 100) if is_free(port)), None)
    if free is None:
        raise SetupError(
            f"no free port on {HOST}: 100 ports between {PORTS.start} and {PORTS.stop} were tried; "
            "check what listens there (ss -ltn)"
        )
    return free


def is_free(port: int) -> bool:
    """Returns whether a broker could listen on *port*."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the JVM does
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True
