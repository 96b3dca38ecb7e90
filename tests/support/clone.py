"""A fresh clone of the repository, for tests of spark-submit.sh."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

FILES = (
    "spark-submit.sh",
    "setup.cfg",
    "pyproject.toml",
    "conf/set-up.sh",
    "conf/jars.sha256",
    "conf/jars.xml",
    "conf/lock/bench.txt",
    "conf/lock/build.txt",
    "conf/lock/dev.txt",
    "conf/lock/spark.txt",
    "conf/log4j2.properties",
    "replication/jvm/Acknowledgements.java",
    "replication/jvm/producer/PreserveTimestamps.java",
)
# Programs inherit ignored signals: nohup, and `&` in a script, would change what is tested.
LAUNCHER = """
import os, signal, sys
ignored = [int(number) for number in sys.argv[1].split()]
for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
    signal.signal(number, signal.SIG_IGN if number in ignored else signal.SIG_DFL)
os.execv(sys.argv[2], sys.argv[2:])
"""


@dataclass(frozen=True)
class Clone:
    """A fresh clone beside an empty local environment."""

    folder: Path

    @property
    def home(self) -> Path:
        """The local environment."""
        return self.folder / "home"

    def environment(self, more: Mapping[str, str]) -> dict[str, str]:
        """This process's variables without those that set-up reads, and *more*."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PIP_", "REPLICATION_", "JAVA_", "MASTER", "DEPLOY_MODE"))
        }
        own = {
            "REPLICATION_HOME": str(self.home),
            "REPLICATION_CACHE": str(self.folder / "cache"),
            "PYTHON": sys.executable,
        }
        return {**kept, **own, **more}

    def start(
        self,
        *arguments: str,
        environment: Mapping[str, str] | None = None,
        ignored: Sequence[signal.Signals] = (),
        current: Path | None = None,
    ) -> "subprocess.Popen[str]":
        """Starts the script in the folder *current*; it ignores *ignored* and no other signals."""
        script = str(self.folder / "spark-submit.sh")
        ignores = " ".join(str(int(number)) for number in ignored)
        return subprocess.Popen(
            [sys.executable, "-c", LAUNCHER, ignores, script, *arguments],
            cwd=current,
            env=self.environment(environment or {}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str, **environment: str) -> tuple[int, str, str]:
        """Exit code, stdout, stderr."""
        with self.start(*arguments, environment=environment) as process:
            out, err = process.communicate(timeout=600)
        return process.returncode, out, err

    def program(self, path: str, text: str) -> Path:
        """A program in place of a real one; its folder."""
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"#!/usr/bin/env bash\n{text}\n")
        file.chmod(0o755)
        return file.parent
