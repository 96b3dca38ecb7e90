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

from replication.log import Log
from replication.spark.session import parent_of
from replication.state.stop_requests import STOP_FILE

log = Log(__name__)

SCRIPT_PID: Final = "REPLICATION_SCRIPT_PID"
POLL_SECONDS = 1.0


def stop_with_parent(jvm: Any) -> None:  # noqa: ANN401 - py4j's own view of a JVM
    """Writes the script's stop file as soon as the script is no longer the parent of *jvm*."""
    script, file = os.environ.get(SCRIPT_PID), os.environ.get(STOP_FILE)
    if script and file and (parent_of(jvm) == script or _is_gone(int(script))):
        watch = threading.Thread(
            target=_watch, args=(jvm, script, Path(file)), name="parent", daemon=True
        )
        watch.start()


def _watch(jvm: Any, script: str, file: Path) -> None:  # noqa: ANN401 - py4j's own view of a JVM
    while (parent := parent_of(jvm)) == script:
        time.sleep(POLL_SECONDS)
    if parent is None:  # the JVM has ended
        return
    log.warning("script_lost", pid=script, text="spark-submit.sh was killed; the job stops")
    file.parent.mkdir(exist_ok=True)
    atexit.register(shutil.rmtree, file.parent, ignore_errors=True)  # as the script does
    file.touch()


def _is_gone(pid: int) -> bool:
    with suppress(PermissionError):  # somebody else's process
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
    return False
