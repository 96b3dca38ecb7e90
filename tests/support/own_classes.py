"""A jar with the classes of tests/java that implement MirrorMaker 2's interfaces."""

import os
import subprocess
import zipfile
from pathlib import Path

from replication.config.home import home
from tests.support.local import REPOSITORY

INTERFACES = ("connect-mirror-client-*.jar", "connect-mirror-4*.jar", "connect-api-*.jar")


def interface_jars() -> list[Path]:
    """The jars that Kafka brings in libs/ for such classes, from the set-up of MirrorMaker 2."""
    return [jar for name in INTERFACES for jar in sorted((home() / "jars" / "mm2").glob(name))]


def jar_of_own_classes(folder: Path) -> Path:
    """A jar with OwnPolicy and OwnFilter, and nothing else."""
    classes, jar = folder / "classes", folder / "own.jar"
    sources = [
        str(REPOSITORY / "tests" / "java" / f"Own{name}.java") for name in ("Policy", "Filter")
    ]
    kafka = os.pathsep.join(map(str, (home() / "jars" / "mm2").glob("*.jar")))
    subprocess.run(
        ["javac", "-cp", kafka, "-d", str(classes), *sources],  # noqa: S607
        check=True,
        capture_output=True,
    )
    with zipfile.ZipFile(jar, "w") as archive:
        for file in classes.rglob("*.class"):
            archive.write(file, file.relative_to(classes))
    return jar
