"""Stops a job whose spark-submit.sh was killed, as that script would have on a signal.

The script names itself in ``REPLICATION_SCRIPT_PID`` and is the parent of the driver's JVM. When it
dies, the JVM gets another parent, even if nobody has waited for the script's end. In cluster deploy
mode, and under another launcher, there is no such variable and nothing to watch.
"""

import atexit
import os
import shutil
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from py4j.protocol import Py4JError

from replication.java import java_class
from replication.log import Log
from replication.state.stop_requests import STOP_FILE

log = Log(__name__)

SCRIPT_PID: Final = "REPLICATION_SCRIPT_PID"
POLL_SECONDS = 2.0


def stop_with_parent(jvm: Any) -> None:  # noqa: ANN401 - py4j's own view of a JVM
    """Writes the script's stop file as soon as the script is no longer the parent of *jvm*."""
    script, file = os.environ.get(SCRIPT_PID), os.environ.get(STOP_FILE)
    if not script or not file:
        return
    process = java_class(jvm, "java.lang.ProcessHandle").current()
    if _parent_of(process) == script or _is_gone(int(script)):
        watch = threading.Thread(
            target=_watch, args=(process, script, Path(file)), name="parent", daemon=True
        )
        watch.start()


def _parent_of(process: Any) -> str | None:  # noqa: ANN401 - a Java object
    """Returns the id of the parent of *process*; None if nobody can tell.

    That is so in another namespace, where the JVM cannot open one more file, and where it does not
    answer.
    """
    with suppress(Py4JError):
        parent = process.parent()
        if parent.isPresent():
            return str(parent.get().pid())
    return None


def _watch(process: Any, script: str, file: Path) -> None:  # noqa: ANN401 - a Java object
    launcher = os.getppid()
    while os.getppid() == launcher:  # without its JVM this process ends
        time.sleep(POLL_SECONDS)
        if is_lost(_parent_of(process), script):
            log.warning(
                "script_lost", pid=script, text="spark-submit.sh was killed; stopping the job"
            )
            while not _ask_to_stop(file):
                time.sleep(POLL_SECONDS)
            return


def is_lost(parent: str | None, script: str) -> bool:
    """Returns whether *script* has ended.

    Args:
        parent: The process that is the parent of the script's job now. Where that is unknown, the
            script lives as long as there is a process of its id.
        script: The id of the script, which was the parent of its job.
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
