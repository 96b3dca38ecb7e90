"""Builds what other machines need: ``./spark-submit.sh --build FOLDER``.

FOLDER/*.whl               the package with our Java classes, for pip and for Databricks
FOLDER/jars/               the connector, Delta and our Java classes, for --jars
FOLDER/python*.tar.gz      the Python packages without PySpark, for --archives on YARN
FOLDER/jobs/, log4j2.properties, lock/
FOLDER/Dockerfile, entrypoint.sh    the image: docker build FOLDER
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from replication.config.home import OUR_JAR, connector_jars, home
from replication.deploy.archives import environment
from replication.errors import ReplicationError, SetupError

SOURCES: Final = ("setup.cfg", "pyproject.toml", "README.md", "jobs", "replication")
LOCKS: Final = ("build.txt", "spark.txt", "serve.txt")
IMAGE: Final = ("Dockerfile", "entrypoint.sh")


def build(repository: Path, folder: Path) -> None:
    """Writes all artifacts of *repository* into *folder*, which is replaced.

    Raises:
        SetupError: *folder* holds something else, or the wheel cannot be built.
    """
    if folder.exists() and any(folder.iterdir()) and not (folder / "Dockerfile").exists():
        raise SetupError(f"{folder} is not empty and holds no earlier build: name another folder")
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "jars").mkdir(parents=True)
    _build_wheel(repository, folder)
    for jar in (*connector_jars(), OUR_JAR):
        shutil.copy(jar, folder / "jars")
    shutil.copy(environment(home() / "py-files"), folder)
    shutil.copytree(repository / "jobs", folder / "jobs", ignore=_caches)
    shutil.copy(repository / "conf" / "log4j2.properties", folder)
    (folder / "lock").mkdir()
    for name in LOCKS:
        shutil.copy(repository / "conf" / "lock" / name, folder / "lock")
    for name in IMAGE:
        shutil.copy(repository / "conf" / "deploy" / "kubernetes" / name, folder)


def _build_wheel(repository: Path, folder: Path) -> None:
    """Builds in a copy: files that an earlier build has left would go into the wheel."""
    with tempfile.TemporaryDirectory() as temporary:
        for name in SOURCES:
            source = repository / name
            if source.is_dir():
                shutil.copytree(source, Path(temporary, name), ignore=_caches)
            else:
                shutil.copy(source, temporary)
        pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps"]
        command = [*pip, "--no-build-isolation", "--wheel-dir", str(folder), temporary]
        built = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if built.returncode:
        raise SetupError(f"the wheel cannot be built: {(built.stdout + built.stderr).strip()}")


_caches = shutil.ignore_patterns("__pycache__", "*.pyc", "*.egg-info", ".part")


def main(repository: str, folder: str) -> int:
    """Builds, prints what was made, and returns the exit code."""
    try:
        build(Path(repository), Path(folder))
    except ReplicationError as error:
        print(f"spark-submit.sh: {error}", file=sys.stderr)  # noqa: T201
        return error.exit_code
    for file in sorted(Path(folder).iterdir()):
        print(file)  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
