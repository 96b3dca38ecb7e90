"""Brokers whose clock is wrong: their jars have another class in place of Kafka's clock."""

import subprocess
import zipfile
from dataclasses import dataclass, replace
from pathlib import Path

from replication.demo.brokers import BrokerSettings
from tests.support.local import REPOSITORY

CLASS = "org/apache/kafka/common/utils/SystemTime.class"


@dataclass(frozen=True, slots=True)
class WrongClock:
    """The clock of the brokers that have these settings, from their next start on."""

    settings: BrokerSettings
    file: Path

    def set_ahead(self, seconds: float) -> None:
        """Sets it ahead of this machine's."""
        self.file.write_text(str(round(seconds * 1000)))


def wrong_clock(settings: BrokerSettings, folder: Path) -> WrongClock:
    """Makes jars of brokers with a clock that can be set, in *folder*."""
    jars, file = folder / "wrong-clock", folder / "ahead-ms"
    jars.mkdir()
    (clients,) = settings.jars.glob("kafka-clients-*.jar")
    for jar in settings.jars.glob("*.jar"):
        if jar != clients:
            (jars / jar.name).symlink_to(jar)
    source = REPOSITORY / "tests" / "java" / "SystemTime.java"
    subprocess.run(
        ["javac", "-cp", str(clients), "-d", str(folder), str(source)],  # noqa: S607
        check=True,
        capture_output=True,
    )
    with zipfile.ZipFile(clients) as old, zipfile.ZipFile(jars / clients.name, "w") as new:
        for name in old.namelist():
            new.writestr(name, (folder / CLASS).read_bytes() if name == CLASS else old.read(name))
    options = (*settings.jvm_options, f"-Dclock.ahead={file}")
    return WrongClock(replace(settings, jars=jars, jvm_options=options), file)
