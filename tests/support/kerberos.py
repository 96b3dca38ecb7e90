"""A Kerberos server for the tests."""

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from replication.demo.brokers import free_port
from replication.kafka.jvm import shared_jvm
from tests.support.local import REPOSITORY, jars

BROKER = "kafka/localhost@EXAMPLE.COM"  # the name that Java finds for 127.0.0.1
CLIENT = "mirror@EXAMPLE.COM"


@dataclass(frozen=True, slots=True)
class Kerberos:
    """A running server. The keytab has the keys of all principals."""

    folder: Path

    @property
    def krb5_conf(self) -> str:
        """What ``java.security.krb5.conf`` is to be."""
        return str(self.folder / "krb5.conf")

    def jaas(self, principal: str) -> str:
        """A login as *principal* with its key."""
        return (
            "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true "
            f'keyTab="{self.folder / "all.keytab"}" principal="{principal}";'
        )


@contextmanager
def running_kdc(folder: Path, principals: Sequence[str] = (BROKER, CLIENT)) -> Iterator[Kerberos]:
    """A server with *principals*, which ends with the block, or with this process."""
    kdc_jars = jars("kdc", override="KDC_JARS")
    classes = folder / "classes"
    classes.mkdir(parents=True)
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java") or "java"
    source = REPOSITORY / "tests" / "java" / "TestKdc.java"
    compile_it = [f"{java}c", "-d", str(classes), "-cp", f"{kdc_jars}/*", str(source)]
    subprocess.run(compile_it, check=True, capture_output=True)
    command = [java, "-cp", f"{classes}:{kdc_jars}/*", "TestKdc", str(folder), str(free_port())]
    with (
        (folder / "kdc.log").open("w") as log,
        subprocess.Popen(
            [*command, *principals], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log
        ) as process,
    ):
        assert process.stdout is not None
        lines = iter(process.stdout.readline, b"")
        assert any(line == b"ready\n" for line in lines), (folder / "kdc.log").read_text()
        try:
            yield Kerberos(folder)
        finally:
            process.communicate(timeout=30)


def use_kerberos(patch: pytest.MonkeyPatch, kerberos: Kerberos) -> None:
    """Lets this process's JVM, and those of processes that it starts, find the server."""
    patch.setenv("JDK_JAVA_OPTIONS", f"-Djava.security.krb5.conf={kerberos.krb5_conf}")
    jvm = shared_jvm()
    jvm.java.lang.System.setProperty("java.security.krb5.conf", kerberos.krb5_conf)
    jvm.sun.security.krb5.Config.refresh()  # Hadoop has looked for another one
