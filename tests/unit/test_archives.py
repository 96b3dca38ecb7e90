"""The files that bring the Python side to other hosts."""

import subprocess
from importlib.util import MAGIC_NUMBER
from pathlib import Path

from replication.deploy.archives import LAUNCHER, environment, py_files
from tests.support.local import PYTHON, REPOSITORY


def test_the_archive_is_made_once_and_brings_all_packages_but_spark(tmp_path: Path) -> None:
    archive = environment(tmp_path / "py-files")
    made = archive.stat().st_mtime_ns
    subprocess.run(["/usr/bin/env", "tar", "-xf", archive, "-C", tmp_path], check=True)  # like YARN

    assert environment(tmp_path / "py-files") == archive
    assert archive.stat().st_mtime_ns == made
    program = (
        "import click, confluent_kafka, deltalake, obstore, prometheus_client, rich, yaml\n"
        "import pyspark"
    )
    answer = subprocess.run(
        [tmp_path / "bin/python", "-c", program], capture_output=True, text=True, check=False
    )
    assert answer.stderr.splitlines()[-1] == "ModuleNotFoundError: No module named 'pyspark'"


def test_our_code_is_shipped_compiled_and_fits_another_python_all_the_same(tmp_path: Path) -> None:
    shipped = py_files(REPOSITORY, tmp_path)
    program = "import replication.errors as it; print(it.__file__)"

    def loaded() -> Path:
        answer = subprocess.run(
            [PYTHON, "-c", program], env={"PYTHONPATH": str(shipped)}, capture_output=True,
            text=True, check=True, cwd=tmp_path,
        )  # fmt: skip
        return Path(answer.stdout.splitlines()[0]).relative_to(shipped)

    compiled = loaded()
    content = shipped.read_bytes()
    shipped.write_bytes(content.replace(MAGIC_NUMBER, bytes(len(MAGIC_NUMBER))))

    assert compiled == Path("replication/errors.pyc")
    assert loaded() == Path("replication/errors.py")


def test_a_node_without_that_python_is_named(tmp_path: Path) -> None:
    launcher = LAUNCHER.format(version="2.0", built="/nowhere/python2.0")
    (tmp_path / "packages").mkdir()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python").write_text(launcher)

    answer = subprocess.run(
        ["/bin/sh", tmp_path / "bin/python"], capture_output=True, text=True, check=False
    )

    assert answer.returncode == 2
    assert answer.stderr.startswith("no python2.0 on ")
