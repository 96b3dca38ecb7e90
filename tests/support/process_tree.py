"""A process and its descendants, as Linux's /proc shows them."""

import contextlib
import os
import signal
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

PROC = Path("/proc")
PARENT = 1  # index of the parent's id among the fields that `stats` yields


def family(pid: int) -> list[int]:
    """*pid* and its living descendants, parents before children."""
    started: dict[int, list[int]] = defaultdict(list)
    found = list(stats(PROC.glob("[0-9]*/stat")))
    for member, _, fields in found:
        started[int(fields[PARENT])].append(member)
    tree = [pid] if any(member == pid for member, _, _ in found) else []
    for member in tree:  # grows as it goes
        tree += started[member]
    return tree


def arguments_of(pid: int) -> str:
    """The arguments of a process and of all that it started, as `ps` shows them."""
    files = [PROC / str(member) / "cmdline" for member in family(pid)]
    return "\n".join(file.read_text(errors="replace") for file in files if file.exists())


def program(pid: int) -> str:
    """The name of a process's program."""
    return (PROC / str(pid) / "comm").read_text().strip()


def own_memory(pid: int) -> int:
    """The bytes of memory that a process has filled itself, without files that it has mapped."""
    lines = (PROC / str(pid) / "status").read_text().splitlines()
    (kilobytes,) = [line.split()[1] for line in lines if line.startswith("RssAnon:")]
    return int(kilobytes) << 10


def living() -> set[int]:
    """All processes that have not ended; one whose end nobody has waited for has ended."""
    return {pid for pid, _, fields in stats(PROC.glob("[0-9]*/stat")) if fields[0] != "Z"}


def kill_tree(pid: int) -> None:
    """Kills *pid* and all it has started by SIGKILL; a parent cannot start more meanwhile."""
    os.kill(pid, signal.SIGSTOP)
    for child in children(pid):
        kill_tree(child)
    os.kill(pid, signal.SIGKILL)


def children(pid: int) -> list[int]:
    """What any thread of *pid* has started: a JVM's main thread is not its first one."""
    files = (PROC / str(pid) / "task").glob("*/children")
    return [int(child) for file in files for child in file.read_text().split()]


def kill(pids: Iterable[int]) -> None:
    """Kills those of *pids* that still live by SIGKILL."""
    send_signal(pids, signal.SIGKILL)


def send_signal(pids: Iterable[int], number: signal.Signals) -> None:
    """Sends a signal to those of *pids* that still live."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


@contextlib.contextmanager
def paused(pids: Iterable[int]) -> Iterator[None]:
    """Pauses *pids* by SIGSTOP during the block, as a suspended machine would."""
    held = list(pids)
    send_signal(held, signal.SIGSTOP)
    try:
        yield
    finally:
        send_signal(held, signal.SIGCONT)


def stats(files: Iterable[Path]) -> Iterator[tuple[int, str, list[str]]]:
    """Id, name and the further fields of every process or thread that still lives.

    Args:
        files: Paths of ``stat`` files under /proc.
    """
    for file in files:
        try:
            text = file.read_text(errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            continue  # ended meanwhile
        head, _, tail = text.rpartition(") ")
        number, _, name = head.partition(" (")
        yield int(number), name, tail.split()
