"""The class archive of the test brokers, which saves each start almost half of its CPU."""

import fcntl
from dataclasses import replace
from pathlib import Path
from zlib import crc32

from replication.demo.brokers import Broker, BrokerSettings
from replication.spark.class_archive import QUIET
from tests.support.local import HOME


def archived(settings: BrokerSettings, folder: Path) -> BrokerSettings:
    """*settings* with the archive. The first call makes it, by a broker in *folder*."""
    names = sorted(jar.name for jar in settings.jars.glob("*.jar"))
    archive = HOME / "test-archives" / f"brokers-{crc32(str(names).encode())}.jsa"
    archive.parent.mkdir(exist_ok=True)
    with (archive.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # three groups of tests start at the same time
        if not archive.exists():
            part = archive.with_suffix(".part")
            broker = Broker("archive", folder, _with(settings, f"ArchiveClassesAtExit={part}"))
            broker.start()
            broker.stop()
            part.rename(archive)
    return _with(settings, f"SharedArchiveFile={archive}")


def _with(settings: BrokerSettings, option: str) -> BrokerSettings:
    return replace(settings, jvm_options=(*settings.jvm_options, f"-XX:{option}", *QUIET.split()))
