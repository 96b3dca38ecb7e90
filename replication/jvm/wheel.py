"""Fails the build of a wheel without our Java classes. Only setuptools runs this."""

from pathlib import Path

from setuptools.command.build_py import build_py
from setuptools.errors import FileError

JAR = Path(__file__).with_name("replication.jar")


class BuildPy(build_py):
    """Copies the package; fails if the compiled Java classes are missing."""

    def run(self) -> None:
        """Copies the package into the build folder."""
        if not self.editable_mode and not JAR.exists():
            raise FileError(f"{JAR} is missing; run ./spark-submit.sh --setup, which compiles it")
        super().run()
