"""Calls about many topics that go on without those which a cluster rejects."""

from collections.abc import Callable, Collection, Iterable
from typing import TypeVar

from replication.kafka.diagnosis import CallError

ResultT = TypeVar("ResultT")


class Rejections:
    """The topics that one cluster rejected so far. ``texts`` has the reason for each, by name."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def call(self, send: Callable[[Collection[str]], ResultT], topics: Iterable[str]) -> ResultT:
        """Calls *send* for *topics* without the rejected ones.

        Raises:
            CallError: The cluster as a whole fails.
        """
        names = set(topics)
        while True:
            try:
                return send(names - self.texts.keys())
            except CallError as error:  # noqa: PERF203 - a loop of retries
                if not names & error.rejected.keys() - self.texts.keys():
                    raise
                self.texts.update(error.rejected)
