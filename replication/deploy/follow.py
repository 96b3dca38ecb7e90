"""Runs spark-submit in cluster deploy mode, and ends with the exit code of the driver.

spark-submit ends with 1 for every failure on YARN, and with 0 on Kubernetes, but it logs how the
application ended: on YARN the text of `replication.app.run_history`, on Kubernetes the end of
the container. A driver's pod that is deleted while it runs has no end; that is a failure as well.

    python follow.py COMMAND ...    (standard library only: it runs as a file)
"""

import re
import subprocess
import sys
from collections.abc import Sequence
from typing import IO, Final

EXIT_CODE: Final = re.compile(r"\bexit code:? (\d+)")
POD_ENDED: Final = "LoggingPodStatusWatcherImpl: Container final statuses:"
POD_DELETED: Final = "spark-submit.sh: the driver's pod was deleted while it ran\n"


def follow(command: Sequence[str], output: IO[str]) -> int:
    """Runs *command*, passes its stderr on to *output*, and returns the driver's exit code."""
    named: int | None = None
    has_ended = False
    with subprocess.Popen(  # noqa: S603 - our own command
        command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace"
    ) as process:
        for line in process.stderr or ():
            output.write(line)
            output.flush()
            has_ended = has_ended or POD_ENDED in line
            if found := EXIT_CODE.search(line):
                named = int(found[1])
    if has_ended and named is None:
        output.write(POD_DELETED)
        return process.returncode or 1
    return process.returncode if named is None else named


if __name__ == "__main__":
    sys.exit(follow(sys.argv[1:], sys.stderr))
