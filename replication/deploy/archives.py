"""The Python side as files: a zip of our code, and an archive of the packages that it needs.

Each is named by its content, because a running job keeps loading modules from the file it started
with, and because a second submission then finds the file of the first one.
"""

import hashlib
import io
import os
import py_compile
import re
import sys
import sysconfig
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.metadata import Distribution, PackageNotFoundError, distribution, requires
from pathlib import Path
from typing import Final

from replication.config.home import home
from replication.errors import SetupError

DISTRIBUTION: Final = "kafka-replication-on-spark"
ENVIRONMENT: Final = "environment"
"""The folder into which a node unpacks the archive."""

INTERPRETER: Final = f"./{ENVIRONMENT}/bin/python"
VERSION: Final = f"{sys.version_info.major}.{sys.version_info.minor}"
NOT_NEEDED: Final = {"pyspark", "delta-spark", "py4j"}
"""Spark brings its own, which must not be overridden."""

LAUNCHER: Final = """\
#!/bin/sh
# Runs this node's Python {version} with the packages of this archive. They hold compiled code, so
# another version cannot load them. REPLICATION_PYTHON names an interpreter that is not on PATH.
packages=$(cd "$(dirname "$0")/../packages" && pwd)
export PYTHONPATH="${{PYTHONPATH:+$PYTHONPATH:}}$packages"
for python in ${{REPLICATION_PYTHON:-}} python{version} {built}; do
  command -v "$python" >/dev/null 2>&1 && exec "$python" "$@"
done
echo "no python{version} on $(hostname): install it there, or name it with" \\
  "--conf spark.yarn.appMasterEnv.REPLICATION_PYTHON=/path/to/python{version}" >&2
exit 2
"""


def py_files(repository: Path, folder: Path) -> Path:
    """Makes a zip of ``replication/`` in *folder*, for ``--py-files``.

    It also holds the modules compiled for this Python, or each start would compile them. Another
    version compiles them itself.
    """
    files = sorted((repository / "replication").rglob("*.py"))
    digest = hashlib.sha256(sys.version.encode())
    for file in files:
        digest.update(f"\n{file.relative_to(repository)}\n".encode() + file.read_bytes())
    path = folder / f"replication-{digest.hexdigest()[:12]}.zip"
    if not path.exists():
        with _new(path) as part, zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as archive:
            for file in files:
                name = str(file.relative_to(repository))
                archive.writestr(zipfile.ZipInfo(name), file.read_bytes())
                archive.writestr(zipfile.ZipInfo(f"{name}c"), _compiled(file, name))
    return path


def _compiled(file: Path, name: str) -> bytes:
    """Compiles *file* to code that is not compared with its source; tracebacks call it *name*."""
    with tempfile.TemporaryDirectory() as temporary:
        target = str(Path(temporary, "module.pyc"))
        unchecked = py_compile.PycInvalidationMode.UNCHECKED_HASH
        py_compile.compile(str(file), target, name, doraise=True, invalidation_mode=unchecked)
        return Path(target).read_bytes()


def environment(folder: Path) -> Path:
    """Makes an archive for YARN in *folder* of the installed packages that ``setup.cfg`` requires.

    A node needs no package, but a Python of the version that runs here. The archive holds
    ``bin/python``, which starts that one with ``packages/``.

    Raises:
        SetupError: A required package is not installed.
    """
    found = packages()
    launcher = LAUNCHER.format(version=VERSION, built=Path(sys.executable).resolve())
    names = sorted(f"{name}=={one.version}" for name, one in found.items())
    key = "\n".join([launcher, sysconfig.get_platform(), *names])
    digest = hashlib.sha256(key.encode()).hexdigest()[:12]
    path = folder / f"python{VERSION}-{digest}.tar.gz"
    if not path.exists():
        with _new(path) as part, tarfile.open(part, "w:gz", compresslevel=6) as archive:
            _add(archive, "bin/python", launcher.encode(), 0o755)
            for name, source in sorted(_files(found)):
                _add(archive, f"packages/{name}", source.read_bytes(), 0o644)
    return path


def packages() -> dict[str, Distribution]:
    """Returns the packages that the project needs, with those that they need, by their names.

    Raises:
        SetupError: One that `DISTRIBUTION` requires is not installed.
    """
    found: dict[str, Distribution] = {}
    waiting = _names(requires(DISTRIBUTION) or [])
    required = set(waiting)
    for name in waiting:  # grows as it goes
        if name in found or name in NOT_NEEDED:
            continue
        try:
            found[name] = distribution(name)
        except PackageNotFoundError:
            if name in required:
                raise SetupError(
                    f"the package {name} is not installed: run ./spark-submit.sh --setup"
                ) from None
            continue  # for another platform or version of Python
        waiting += _names(found[name].requires or [])
    return found


def _names(requirements: list[str]) -> list[str]:
    """Returns the packages of *requirements*, without those of extras."""
    needed = (text for text in requirements if not re.search(r";.*\bextra\s*==", text))
    names = (re.match(r"[A-Za-z0-9._-]+", text) for text in needed)
    return [re.sub(r"[-_.]+", "-", name[0]).lower() for name in names if name]


def _files(found: Mapping[str, Distribution]) -> Iterator[tuple[str, Path]]:
    """Yields the paths below ``packages/`` and their files; no scripts, no compiled caches."""
    for one in found.values():
        for file in one.files or ():
            if file.parts[0] != ".." and file.suffix != ".pyc":
                yield file.as_posix(), Path(str(file.locate()))


def _add(archive: tarfile.TarFile, name: str, content: bytes, mode: int) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    member.mode = mode
    archive.addfile(member, io.BytesIO(content))


@contextmanager
def _new(path: Path) -> Iterator[Path]:
    """Yields the file for the block to write; it has the name *path* only when it is complete."""
    part = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield part
        part.replace(path)
    except OSError as error:
        raise SetupError(
            f"cannot write {path}: {error.strerror or error}. Each version of the code needs this "
            "file once: run ./spark-submit.sh --setup as a user who may write there, or set "
            "REPLICATION_HOME to a folder of your own"
        ) from error
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


if __name__ == "__main__":  # by --setup, because whoever starts a job may not write there
    try:
        py_files(Path(sys.argv[1]), home() / "py-files")
    except SetupError as problem:
        print(f"spark-submit.sh: {problem}", file=sys.stderr)  # noqa: T201
        sys.exit(problem.exit_code)
