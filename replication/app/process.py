"""A job's process: its signals, parent, memory, open files, folder, and libraries' output."""

import atexit
import ctypes
import faulthandler
import fcntl
import logging
import os
import re
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from replication.config.home import RUN_FOLDER
from replication.java import JVM_GONE, java_class
from replication.log import Log
from replication.spark.acknowledged import JVM_FIGURES
from replication.state.requests import STOP_FILE

log = Log(__name__)


def stop_on_signals(stops: Collection[threading.Event]) -> None:
    """Sets *stops* on SIGTERM and SIGINT, which only a main thread can catch."""

    def stop(number: int, _frame: object) -> None:
        log.info("stopping_on_signal", signal=signal.Signals(number).name)
        for event in stops:
            event.set()

    if threading.current_thread() is not threading.main_thread():
        return  # in a notebook: its own cancel button ends the job
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)


# Lets C libraries give the memory that they have freed back to the system.
#
# glibc keeps what each thread frees, up to a limit that grows with the largest block that was ever
# freed. After forty minutes of faults a driver's Python had 60 MB of it, left by readers of
# records.

_TRIM_THRESHOLD: Final = -1
"""M_TRIM_THRESHOLD of malloc.h. Once it is set, glibc does not raise it."""

KEPT_BYTES: Final = 128 << 10
"""What a thread's heap may keep: glibc's own first limit."""


def give_back_memory() -> None:
    """Fixes how much freed memory a thread's heap keeps; other C libraries have no such call."""
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).mallopt(_TRIM_THRESHOLD, KEPT_BYTES)


# Takes what libraries in C and Rust print on stderr, past Python, and logs it.
#
# delta-rs does its work in threads of Rust. When a disk is full one of them panics, and Rust
# prints that by itself, while the error that says what failed comes back to Python as well. Such a
# text is for a developer.

STDERR: Final = 2
LAST_LINES_SECONDS: Final = 1.0
PANIC: Final = re.compile(r"thread '.*' (\(\d+\) )?panicked at ")
PANIC_ENDS: Final = "note: "


def take_library_output() -> None:
    """Logs from now on what is written to the descriptor of stderr; Python's own stays its own.

    Must come before the log is configured, whose lines go where stderr was.
    """
    sys.stderr.flush()
    before = os.fdopen(os.dup(STDERR), "w", buffering=1, errors="backslashreplace")
    reader, writer = os.pipe()
    os.dup2(writer, STDERR)
    os.close(writer)
    sys.stderr = before
    faulthandler.enable(before)  # when the process crashes, nobody reads the pipe any more
    lines = os.fdopen(reader, encoding="utf-8", errors="replace")
    thread = threading.Thread(target=_log, args=[lines], name="library output", daemon=True)
    thread.start()

    def end() -> None:
        os.dup2(before.fileno(), STDERR)  # nobody writes to the pipe any more
        thread.join(LAST_LINES_SECONDS)

    atexit.register(end)


def _log(lines: Iterable[str]) -> None:
    for level, line in levels(lines):
        if level == logging.DEBUG:
            log.debug("library_output", text=line)
        else:
            log.warning("library_output", text=line)


def levels(lines: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Yields the *lines* but empty ones with their levels: those of a panic are for a developer."""
    is_panic = False
    for line in lines:
        is_panic = is_panic or PANIC.match(line) is not None
        if line.strip():
            yield logging.DEBUG if is_panic else logging.WARNING, line.rstrip()
        is_panic = is_panic and not line.startswith(PANIC_ENDS)


# Says that a process is about to run out of open files, and what to raise, before calls fail.
#
# Each library has its own words for it, and some call it a cluster that does not answer. Linux
# tells how many files a process has open; elsewhere nothing is watched.

OPEN_FILES_POLL_SECONDS: Final = 5.0
REMIND_SECONDS: Final = 60.0
NEARLY_ALL: Final = 0.9
_LIMIT: Final = re.compile(r"Max open files +(\d+)")


def watch_open_files(processes: Collection[int]) -> None:
    """Logs ``open_files`` as long as one of *processes* has nearly all files open that it may."""
    watch = threading.Thread(
        target=_watch_open_files, args=(processes,), name="open-files", daemon=True
    )
    watch.start()


def _watch_open_files(processes: Collection[int]) -> None:
    said_at = dict.fromkeys(processes, -REMIND_SECONDS)
    while True:
        for process in processes:
            text = shortage(*open_files(process))
            if text and time.monotonic() - said_at[process] >= REMIND_SECONDS:
                said_at[process] = time.monotonic()
                log.error("open_files", pid=process, text=text)
        time.sleep(OPEN_FILES_POLL_SECONDS)


def open_files(process: int) -> tuple[int, int]:
    """Returns how many files *process* has open, and may have open; 0 twice if that is unknown."""
    folder = Path("/proc", str(process))
    try:
        found = _LIMIT.search((folder / "limits").read_text())
        with os.scandir(folder / "fd") as opened:  # there are thousands
            return sum(1 for _ in opened), int(found[1]) if found else 0
    except OSError:
        return 0, 0


def shortage(opened: int, limit: int) -> str:
    """Returns what follows from *opened* of *limit* files, and the next step; "" if nothing."""
    if opened < NEARLY_ALL * limit or not limit:
        return ""
    return (
        f"{opened} of {limit} files are open, and beyond that the process cannot connect, read or "
        "write: raise the limit (ulimit -n; LimitNOFILE= of a systemd unit) and start the job "
        "again; each partition in Real-Time Mode takes about six"
    )


# Stops a job whose spark-submit.sh was killed, as that script would have on a signal.
#
# The script names itself in ``REPLICATION_SCRIPT_PID`` and is the parent of the driver's JVM. When
# it dies, the JVM gets another parent, even if nobody has waited for the script's end. In cluster
# deploy mode, and under another launcher, there is no such variable and nothing to watch.

SCRIPT_PID: Final = "REPLICATION_SCRIPT_PID"
POLL_SECONDS = 2.0


def stop_with_parent(jvm: Any) -> None:  # noqa: ANN401 - py4j's own view of a JVM
    """Writes the script's stop file as soon as the script is no longer the parent of *jvm*."""
    script, file = os.environ.get(SCRIPT_PID), os.environ.get(STOP_FILE)
    if not script or not file:
        return
    ask = java_class(jvm, JVM_FIGURES).parent
    if _parent(ask) == script or _is_gone(int(script)):
        watch = threading.Thread(
            target=_watch, args=(ask, script, Path(file)), name="parent", daemon=True
        )
        watch.start()


def _parent(ask: Callable[[], Any]) -> str | None:
    """Returns the id of the process that *ask* calls the JVM's parent; None if nobody can tell.

    That is so in another namespace, where the JVM cannot open one more file, and where it does not
    answer.
    """
    with suppress(*JVM_GONE):
        if parent := int(ask()):
            return str(parent)
    return None


def _watch(ask: Callable[[], Any], script: str, file: Path) -> None:
    launcher = os.getppid()
    while True:
        time.sleep(POLL_SECONDS)
        is_script_lost = is_lost(_parent(ask), script)
        if os.getppid() != launcher:  # the JVM has ended, of which the flows tell
            return
        if is_script_lost:
            log.warning(
                "script_lost", pid=script, text="spark-submit.sh was killed; stopping the job"
            )
            while not _ask_to_stop(file):
                time.sleep(POLL_SECONDS)
            return


def is_lost(parent: str | None, script: str) -> bool:
    """Returns whether *script*, which was the parent of its job, has ended: *parent* is it now.

    Where that is unknown, the script lives as long as there is a process of its id.
    """
    return _is_gone(int(script)) if parent is None else parent != script


def _ask_to_stop(file: Path) -> bool:
    """Writes the stop file; false on a full disk, which must not let the job live on unseen."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    except OSError as error:
        log.error("stop_not_written", text=error)
        return False
    atexit.register(shutil.rmtree, file.parent, ignore_errors=True)  # as the script does
    return True


def _is_gone(pid: int) -> bool:
    with suppress(PermissionError):  # somebody else's process
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
    return False


LOCK: Final = "lock"


@contextmanager
def hold_run_folder() -> Iterator[None]:
    """Holds the folder's lock for the block, and removes what killed processes have left.

    The script removes the folder of a job that ends. Nothing else would: it is not where systems
    clean.
    """
    folder = os.environ.get(RUN_FOLDER)
    if not folder:
        yield
        return
    with ExitStack() as stack:
        with suppress(OSError):  # a full disk, or no locks there: then nothing is removed
            lock = stack.enter_context(Path(folder, LOCK).open("w"))
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            remove_stale(Path(folder))
        yield


def remove_stale(folder: Path) -> None:
    """Removes the folders beside *folder* whose processes have ended: nobody holds their locks."""
    for other in folder.parent.glob("replication-run-*"):
        if other == folder:
            continue
        with suppress(OSError), (other / LOCK).open("r+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(other, ignore_errors=True)
