"""What the JVM keeps count of, held by programs in Java: no Spark runs."""

import os
import shutil
import subprocess
from pathlib import Path

import pyspark
import pytest

from replication.config.home import OUR_JAR
from tests.support.local import REPOSITORY, jars

JAVA = shutil.which("java") or "java"


@pytest.mark.parametrize(
    "check",
    [
        pytest.param("PartitionCopyCheck", id="each acknowledged record is reported once"),
        pytest.param("DriverReportsCheck", id="which reports count and who may still write"),
        pytest.param("OwnerAssignorCheck", id="malformed members neither end nor make an owner"),
    ],
)
def test_a_check_in_java_holds(check: str, tmp_path: Path) -> None:
    folders = (jars("spark", override="SPARK_JARS"), Path(pyspark.__file__).with_name("jars"))
    class_path = os.pathsep.join(map(str, (tmp_path, OUR_JAR, *(f / "*" for f in folders))))
    source = REPOSITORY / "tests" / "java" / f"{check}.java"

    subprocess.run([JAVA + "c", "-cp", class_path, "-d", tmp_path, source], check=True)
    checked = subprocess.run(
        [JAVA, "-cp", class_path, f"replication.{check}"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert checked.stdout == "ok\n", checked.stderr
