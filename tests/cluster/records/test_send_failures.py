"""What is counted when a record is handed to Kafka's producer is given back, however it fails."""

import shutil
import subprocess
import time
from pathlib import Path

import pytest

from replication.config.home import OUR_JAR
from replication.demo.brokers import Broker
from replication.demo.workload import create_topic
from tests.support.local import HOME, REPOSITORY, jars

pytestmark = [pytest.mark.cluster, pytest.mark.guarantee]

JAVA = shutil.which("java") or "java"


def test_what_is_in_flight_is_what_the_producer_has_taken_and_not_ended(
    own_process: Broker, tmp_path: Path, topic_name: str
) -> None:
    folder = tmp_path / "classes"
    folder.mkdir()
    connectors = jars("spark", override="SPARK_JARS")
    [spark] = (HOME / "venv" / "lib").glob("python*/site-packages/pyspark/jars")
    class_path = f"{folder}:{OUR_JAR}:{connectors}/*:{spark}/*"
    source = REPOSITORY / "tests" / "java" / "SendFailuresCheck.java"
    create_topic(own_process.bootstrap, topic_name, 3, {"max.message.bytes": "10000"})
    seed = time.time_ns() % 10_000
    arguments = [own_process.bootstrap, topic_name, "3", str(own_process.pid), str(seed)]

    subprocess.run([JAVA + "c", "-cp", class_path, "-d", folder, source], check=True)
    checked = subprocess.run(
        [JAVA, "-cp", class_path, "replication.producer.SendFailuresCheck", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )

    assert checked.stdout.endswith("ok\n"), f"seed {seed}: {checked.stderr[-3000:]}"
