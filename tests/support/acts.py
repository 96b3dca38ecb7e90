"""What a process does to what outlives it, one act after the other; the process can end after any.

Tables, topics and the target are recording stand-ins here: no broker can be killed between two
calls of the same function, over and over.
"""

from collections.abc import Callable


class Killed(BaseException):
    """The process ends here: no handler of its own runs."""


class Acts:
    """The acts of one process, in order.

    Args:
        last: After so many acts it is killed; None for never.
    """

    def __init__(self, last: int | None = None) -> None:
        self._last = last
        self.done: list[str] = []

    def __call__(self, act: str) -> None:
        """Notes *act*, whose effect lasts."""
        self.done.append(act)
        if len(self.done) == self._last:
            raise Killed(act)


def killed_after_each(process: Callable[[Acts], object], check: Callable[[list[str]], None]) -> int:
    """Runs *process* until its first act, until its second, and so on, then to its end.

    Args:
        process: Makes a new world each time.
        check: Looks at that world, and may let the next process go on; is told what was done.

    Returns:
        How many acts it has.
    """
    last = 0
    while True:
        last += 1
        acts = Acts(last)
        try:
            process(acts)
        except Killed:
            check(acts.done)
            continue
        check(acts.done)
        return last - 1
