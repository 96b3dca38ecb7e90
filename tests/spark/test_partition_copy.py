"""The interceptor's bookkeeping in Java, held against a list of all pairs."""

import shutil
import subprocess
from pathlib import Path

from replication.config.home import OUR_JAR
from tests.support.local import REPOSITORY, jars

JAVA = shutil.which("java") or "java"


def test_every_acknowledged_record_is_reported_once_with_its_own_offset(tmp_path: Path) -> None:
    class_path = f"{tmp_path}:{OUR_JAR}:{jars('spark', override='SPARK_JARS')}/*"
    source = REPOSITORY / "tests" / "java" / "PartitionCopyCheck.java"

    subprocess.run([JAVA + "c", "-cp", class_path, "-d", tmp_path, source], check=True)
    checked = subprocess.run(
        [JAVA, "-cp", class_path, "replication.PartitionCopyCheck"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert checked.stdout == "ok\n", checked.stderr
