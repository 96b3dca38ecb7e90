"""HDFS and YARN on this machine, in one JVM, and spark-submit.sh as a user of that cluster."""

import json
import os
import shutil
import signal
import subprocess
import urllib.request
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyspark
from py4j.java_gateway import JVMView

from replication.demo.brokers import HOST, Watchdog
from replication.kafka.jvm import open_jvm
from replication.spark.hadoop import hadoop_conf
from replication.spark.session import QUICK_COMPILER
from replication.state.files import hadoop_class_path
from tests.support.local import REPOSITORY, jars
from tests.support.process_tree import PROC, family, kill
from tests.support.waiting import wait_until

START_SECONDS = 180.0
SPARK_JARS = Path(pyspark.__file__).parent / "jars"
NODE_MB = 4096
EXECUTOR = "YarnCoarseGrainedExecutorBackend"
DRIVER = "deploy.yarn.ApplicationMaster"


@dataclass(frozen=True, slots=True)
class Hadoop:
    """A running cluster. ``uri`` is that of its file system."""

    folder: Path
    pid: int

    @property
    def environment(self) -> dict[str, str]:
        """The variables of a host that submits to it."""
        return {
            "HADOOP_CONF_DIR": str(self.folder / "conf"),
            "MASTER": "yarn",
            "DRIVER_MEMORY": "700m",
            "SPARK_LOCAL_IP": HOST,
        }

    @property
    def uri(self) -> str:
        """The root of HDFS."""
        return self._setting("core-site.xml", "fs.defaultFS")

    def arguments(self, cores: int) -> list[str]:
        """Arguments of spark-submit for one small executor with so many task slots."""
        settings = {
            "spark.yarn.jars": f"local:{SPARK_JARS}/*",  # spares an upload of 450 MB
            "spark.executor.instances": "1",
            "spark.executor.cores": str(cores),
            "spark.executor.memory": "600m",
            "spark.yarn.am.memory": "384m",
            "spark.driver.defaultJavaOptions": QUICK_COMPILER,
            "spark.executor.extraJavaOptions": QUICK_COMPILER,
            "spark.scheduler.minRegisteredResourcesRatio": "1.0",
            "spark.ui.enabled": "false",
        }
        return [word for key, value in settings.items() for word in ("--conf", f"{key}={value}")]

    def application(self, name: str) -> Mapping[str, Any]:
        """What the resource manager tells of the newest application called *name*."""
        page = self._setting("yarn-site.xml", "yarn.resourcemanager.webapp.address")
        with urllib.request.urlopen(f"http://{page}/ws/v1/cluster/apps", timeout=30) as answer:
            applications = (json.load(answer)["apps"] or {"app": []})["app"]
        named = [one for one in applications if one["name"] == name]
        return max(named, key=lambda one: one["startedTime"]) if named else {}

    def attempts(self, application: Mapping[str, Any]) -> int:
        """How many attempts an application had."""
        page = self._setting("yarn-site.xml", "yarn.resourcemanager.webapp.address")
        url = f"http://{page}/ws/v1/cluster/apps/{application['id']}/appattempts"
        with urllib.request.urlopen(url, timeout=30) as answer:
            return len(json.load(answer)["appAttempts"]["appAttempt"])

    def processes(self, kind: str) -> list[int]:
        """The JVMs of *kind* that run in containers."""
        return [pid for pid in family(self.pid)[1:] if _is_java(pid, kind)]

    def kill(self, kind: str) -> None:
        """SIGKILL for the JVMs of *kind*, and for what they have started."""
        pids = [member for pid in self.processes(kind) for member in family(pid)]
        assert pids, f"no {kind} runs"
        kill(pids)

    def logs(self) -> str:
        """What the drivers have written to stderr, for the message of a failed test."""
        files = sorted(self.folder.glob("yarn/**/container_*_000001/stderr"))
        return "\n".join(f"{file}:\n{file.read_text()[-4000:]}" for file in files[-2:])

    def _setting(self, file: str, name: str) -> str:
        for entry in ET.parse(self.folder / "conf" / file).iter("property"):  # noqa: S314 - our own
            if entry.findtext("name") == name:
                return str(entry.findtext("value"))
        raise LookupError(name)


@contextmanager
def hadoop_clients() -> Iterator["Clients"]:
    """Clients of the cluster that HADOOP_CONF_DIR names, for the block."""
    with open_jvm(hadoop_class_path()) as jvm:
        client = jvm.org.apache.hadoop.yarn.client.api.YarnClient.createYarnClient()
        client.init(jvm.org.apache.hadoop.yarn.conf.YarnConfiguration())
        client.start()
        yield Clients(jvm, client)
        client.stop()


@dataclass(frozen=True, slots=True)
class Clients:
    """What the commands ``yarn`` and ``hadoop fs`` call."""

    _jvm: JVMView
    _yarn: Any

    def kill(self, application: Mapping[str, Any]) -> None:
        """As ``yarn application -kill`` does; returns when the application has ended."""
        number = self._jvm.org.apache.hadoop.yarn.api.records.ApplicationId.fromString(
            application["id"]
        )
        self._yarn.killApplication(number)

    def get(self, uri: str, folder: Path) -> None:
        """Copies a folder of the file system, as ``hadoop fs -get`` does, into *folder*."""
        source, target = map(self._jvm.org.apache.hadoop.fs.Path, (uri, str(folder)))
        files = source.getFileSystem(hadoop_conf(self._jvm, {}))
        files.copyToLocalFile(False, source, target, True)

    def put(self, folder: Path, uri: str) -> None:
        """Copies what is in *folder* to *uri* of the file system, as ``hadoop fs -put`` does."""
        target = self._jvm.org.apache.hadoop.fs.Path(uri)
        files = target.getFileSystem(hadoop_conf(self._jvm, {}))
        files.mkdirs(target)
        for one in folder.iterdir():
            files.copyFromLocalFile(self._jvm.org.apache.hadoop.fs.Path(str(one)), target)


def _is_java(pid: int, kind: str) -> bool:
    try:
        words = (PROC / str(pid) / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return words[0].endswith(b"java") and any(kind.encode() in word for word in words[1:])


@contextmanager
def mini_hadoop(folder: Path) -> Iterator[Hadoop]:
    """A cluster for the block. It ends with this process, however that one ends."""
    folder.mkdir(parents=True, exist_ok=True)
    classes = f"{jars('hadoop', override='HADOOP_JARS')}/*:{SPARK_JARS}/*"
    java = Path(os.environ.get("JAVA_HOME") or Path(str(shutil.which("java"))).resolve().parents[1])
    options = ["-Xmx768m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    options += ["--add-opens", "java.base/java.lang=ALL-UNNAMED", "-cp", classes]
    program = str(REPOSITORY / "tests" / "java" / "MiniHadoop.java")
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [str(java / "bin" / "java"), *options, program, str(folder), str(NODE_MB)],
            stdin=subprocess.PIPE,  # its end, which comes with ours, ends the cluster
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, "JAVA_HOME": str(java)},
            start_new_session=True,
        )
    watchdog = Watchdog(process.pid, signal.SIGKILL)
    try:

        def is_ready() -> bool:
            assert process.poll() is None, (folder / "log").read_text()[-3000:]
            return (folder / "ready").exists()

        wait_until(is_ready, START_SECONDS)
        yield Hadoop(folder, process.pid)
    finally:
        watchdog.dismiss()
        kill(reversed(family(process.pid)))
        process.communicate()
