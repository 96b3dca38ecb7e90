"""Measures what a limit costs a record: ``python -m tests.bench.limits``."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pyspark

from replication.config.home import OUR_JAR
from tests.support.local import REPOSITORY, jars

NAME = "LimitCost"


def main() -> int:
    """Compiles and runs the program in Java; returns its exit code."""
    java = shutil.which("java") or "java"
    source = REPOSITORY / "tests" / "java" / f"{NAME}.java"
    folders = (jars("spark", override="SPARK_JARS"), Path(pyspark.__file__).with_name("jars"))
    with tempfile.TemporaryDirectory() as classes:
        path = os.pathsep.join(map(str, (classes, OUR_JAR, *(f / "*" for f in folders))))
        compiler = [f"{java}c", "-proc:none", "-cp", path, "-d", classes, str(source)]
        subprocess.run(compiler, check=True)
        command = [java, "-cp", path, f"replication.producer.{NAME}"]
        return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
