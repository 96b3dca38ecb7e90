"""Whether heartbeats of a flow's source are late. Pure."""

from typing import Final

LATE_SECONDS: Final = 60.0
LATE_BEATS: Final = 3


class AwaitedHeartbeats:
    """The heartbeats of one flow, look by look; all times are `steady` ones.

    They are awaited where the file lets something emit them to the source, and where one has
    arrived: whoever has sent it may be on another machine.

    Args:
        beat_seconds: How often the file lets something emit them; None if it does not.
    """

    def __init__(self, beat_seconds: float | None) -> None:
        self._beat_seconds = beat_seconds
        self._since: float | None = None

    def look(self, now: float, newest: float | None, *, is_copied: bool) -> float | None:
        """Returns how long none has arrived, if that is too long.

        Args:
            now: The time.
            newest: That of the newest one that has arrived; None if none has.
            is_copied: Whether the flow copies their topic.
        """
        if not is_copied or (newest is None and self._beat_seconds is None):
            self._since = None
            return None
        self._since = now if self._since is None else self._since
        age = now - max(self._since, self._since if newest is None else newest)
        return age if age > max(LATE_SECONDS, LATE_BEATS * (self._beat_seconds or 0)) else None
