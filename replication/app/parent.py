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
    # Named once: py4j asks Java for each part of a name.
    process = jvm.java.lang.ProcessHandle.current()
    if _parent_of(process) == script or _is_gone(int(script)):
        watch = threading.Thread(
            target=_watch, args=(process, script, Path(file)), name="parent", daemon=True
        )
        watch.start()


def _parent_of(process: Any) -> str | None:  # noqa: ANN401 - a Java object
    """The id of the parent of *process*, "" in another namespace; None if the JVM has ended."""
    try:
        parent = process.parent()
        return str(parent.get().pid()) if parent.isPresent() else ""
    except Py4JError:
        return None


def _watch(process: Any, script: str, file: Path) -> None:  # noqa: ANN401 - a Java object
    while (parent := _parent_of(process)) == script:
        time.sleep(POLL_SECONDS)
    if parent is None:  # the JVM has ended
        return
    log.warning("script_lost", pid=script, text="spark-submit.sh was killed; the job stops")
    atexit.register(shutil.rmtree, file.parent, ignore_errors=True)  # as the script does
    while True:
        try:
            file.parent.mkdir(exist_ok=True)
            file.touch()
        except OSError as error:  # noqa: PERF203 - a full disk must not let the job live on unseen
            log.error("stop_not_written", text=error)
            time.sleep(POLL_SECONDS)
        else:
            return


def _is_gone(pid: int) -> bool:
    with suppress(PermissionError):  # somebody else's process
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
    return False
