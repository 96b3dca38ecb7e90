"""A mirror that runs as a user runs it, and the pages of its driver."""

import http.client
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from replication.demo.brokers import HOST
from replication.demo.play import MirrorProcess
from tests.support.commands import QUICK_START, start_mirror
from tests.support.waiting import wait_until

START_SECONDS = 60.0


def page(port: int, path: str) -> tuple[int, str]:
    """Status and body of a page of the driver; 0 while nothing answers."""
    connection = http.client.HTTPConnection(HOST, port, timeout=5)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    except OSError:
        return 0, ""
    finally:
        connection.close()


@contextmanager
def running(
    file: Path, port: int, *arguments: str, spark: Sequence[str] = QUICK_START
) -> Iterator[MirrorProcess]:
    """A mirror whose driver answers."""
    log = file.parent / f"{file.stem}-{port}.log"
    mirror = start_mirror(file, log, *arguments, spark=spark)
    try:
        wait_until(lambda: page(port, "/livez")[0], START_SECONDS)
        yield mirror
    finally:
        mirror.discard()


def with_port(file: Path, port: int) -> Path:
    """The configuration at another port."""
    other = file.with_name(f"{port}.yaml")
    other.write_text(f"{file.read_text()}metrics.port: {port}\n")
    return other
