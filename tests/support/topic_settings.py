"""Topic settings on real clusters: which a topic sets itself, and brokers that reject some."""

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from replication.demo.brokers import Broker
from replication.kafka.cluster import Cluster
from tests.support.local import REPOSITORY
from tests.support.waiting import wait_until


def overrides(cluster: Cluster, topic: str) -> dict[str, str | None]:
    """The settings that *topic* sets itself."""
    settings = cluster.topic_config([topic])[topic]
    return {key: setting.value for key, setting in settings.items() if setting.origin == "topic"}


def alter_topic(broker: Broker, topic: str, key: str, value: str) -> None:
    """Sets one setting of *topic*, as `change_topic` does."""
    with Cluster("X", {"bootstrap.servers": broker.bootstrap}) as cluster:
        change_topic(cluster, topic, {key: value})


def change_topic(cluster: Cluster, topic: str, changes: Mapping[str, str | None]) -> None:
    """Sets settings of *topic*, or removes them where None; the cluster must accept it.

    It returns when the broker has heard of it: the controller answers first.
    """
    assert cluster.alter_topic_config({topic: changes}) == {}

    def is_heard() -> bool:
        own = overrides(cluster, topic)
        return all(own.get(key) == value for key, value in changes.items())

    wait_until(is_heard, 60)


def jars_with(java_class: str, jars: Path, folder: Path) -> Path:
    """A folder with *jars* and a class of tests/java."""
    both = folder / "jars"
    both.mkdir()
    for jar in jars.glob("*.jar"):
        (both / jar.name).symlink_to(jar)
    source = REPOSITORY / "tests" / "java" / f"{java_class}.java"
    command = ["javac", "-d", str(folder / "classes"), "-cp", f"{jars}/*", str(source)]
    subprocess.run(command, check=True)
    shutil.make_archive(str(folder / java_class), "zip", folder / "classes")
    (folder / f"{java_class}.zip").rename(both / f"{java_class}.jar")
    return both
