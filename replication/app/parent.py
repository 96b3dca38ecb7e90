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
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from py4j.protocol import Py4JError

from replication.java import java_class
from replication.log import Log
from replication.spark.jvm_figures import JVM_FIGURES
from replication.state.stop_requests import STOP_FILE

log = Log(__name__)

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
    with suppress(Py4JError):
        if parent := int(ask()):
            return str(parent)
    return None


def _watch(ask: Callable[[], Any], script: str, file: Path) -> None:
    launcher = os.getppid()
    while os.getppid() == launcher:  # without its JVM this process ends
        time.sleep(POLL_SECONDS)
        if is_lost(_parent(ask), script):
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
