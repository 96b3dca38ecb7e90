"""Cuts or damages a partition's log, as an unclean leader election or a lost disk does."""

import os
from pathlib import Path

from replication.demo.brokers import Broker


def log_bytes(broker: Broker, topic: str) -> int:
    """The size of the log of partition 0, which is one segment."""
    return _segment(broker, topic).stat().st_size


def cut_log(broker: Broker, topic: str, size: int) -> None:
    """Kills the broker, leaves *size* bytes of the log of partition 0, and starts it again."""
    broker.kill()
    os.truncate(_segment(broker, topic), size)
    broker.start()


def damage_log(broker: Broker, topic: str, at: int) -> None:
    """Stops the broker, changes the byte *at* in the log of partition 0, and starts it again.

    A broker that was killed would check its log at the start, and cut it off there.
    """
    broker.stop()
    with _segment(broker, topic).open("r+b") as log:
        log.seek(at)
        (byte,) = log.read(1)
        log.seek(at)
        log.write(bytes([byte ^ 0xFF]))
    broker.start()


def _segment(broker: Broker, topic: str) -> Path:
    (file,) = (broker.folder / "data" / f"{topic}-0").glob("*.log")
    return file
