"""``python -m replication``, and the console command ``replication``.

Nothing but this package is imported from the current folder, and no library from the folders of
another Python that a shell's profile names.
"""

import os
import sys
from io import TextIOWrapper
from pathlib import Path
from typing import Final

OF_SPARK: Final = (
    "SPARK_REMOTE",
    "SPARK_LOCAL_REMOTE",
    "SPARK_CONNECT_MODE_ENABLED",
    "PYSPARK_SUBMIT_ARGS",
)


def main() -> None:
    """Runs the command line with this environment's own libraries, as spark-submit.sh does.

    PYTHONHOME of another release keeps Python itself from starting, before this.
    """
    if os.environ.pop("PYTHONHOME", None):
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606 - itself again
    own = Path(__file__).resolve().parents[1]
    named = [Path(part).absolute() for part in os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    foreign = {str(folder) for folder in named if folder.resolve() != own}
    sys.path.sort(key=lambda entry: entry in foreign)  # last: an archive may bring what is missing
    if "PYSPARK_GATEWAY_PORT" not in os.environ:  # else spark-submit has started this
        for variable in OF_SPARK:
            os.environ.pop(variable, None)

    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # what its encoding does not know is shown escaped
            stream.reconfigure(errors="backslashreplace")

    from replication.cli.main import main as command  # noqa: PLC0415 - it imports libraries

    command(prog_name="replication")


if __name__ == "__main__":
    if sys.path and not getattr(sys.flags, "safe_path", False):
        del sys.path[0]  # which Python adds for -m; a yaml.py that lies there must not run
    main()
