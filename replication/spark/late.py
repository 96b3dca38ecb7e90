"""A Spark session that starts when it is first needed, or beside what needs it later.

Most of an idle drain's CPU seconds would start Spark, which it does not need. Another job needs it
only where its query starts: lease, topics and positions are asked of clusters and files.
"""

from collections.abc import Callable
from contextlib import suppress
from threading import RLock, Thread
from typing import TypeAlias

from pyspark.sql import SparkSession

Session: TypeAlias = "SparkSession | LateSession"


class LateSession:
    """The session of a process, or one made from it. Threads share it.

    Args:
        start: Makes the session; may raise an error, and is tried again then.
        has_begun: Whether the session is as good as made, because what it is made from has started.
    """

    def __init__(
        self, start: Callable[[], SparkSession], has_begun: Callable[[], bool] = lambda: False
    ) -> None:
        self._start = start
        self._has_begun = has_begun
        self._session: SparkSession | None = None
        self._lock = RLock()
        self._beside: Thread | None = None

    @classmethod
    def of(cls, spark: Session) -> "LateSession":
        """Returns *spark*, which may have started long ago."""
        return spark if isinstance(spark, LateSession) else cls(lambda: spark, lambda: True)

    @property
    def started(self) -> SparkSession | None:
        """The session, if Spark has started."""
        if self._session is None and self._has_begun():
            return self.get()
        return self._session

    def get(self) -> SparkSession:
        """Returns the session, which starts if nobody has needed it yet."""
        with self._lock:
            if self._session is None:
                self._session = self._start()
            return self._session

    def begin(self) -> None:
        """Starts Spark in a thread of its own. Whoever calls `get` waits for it."""
        self._beside = Thread(target=self._begin, name="spark start", daemon=True)
        self._beside.start()

    def _begin(self) -> None:
        with suppress(Exception):  # whoever needs the session meets the same, and says it
            self.get()

    def await_begun(self) -> None:
        """Waits until what `begin` has begun is over: Spark cannot end while it starts."""
        if self._beside is not None:
            self._beside.join()

    def derived(self, make: Callable[[SparkSession], SparkSession]) -> "LateSession":
        """Returns another session of the same application, which *make* makes from this one."""
        return LateSession(lambda: make(self.get()), lambda: self.started is not None)
