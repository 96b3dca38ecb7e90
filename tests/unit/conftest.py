"""What unit tests share."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.support.clone import FILES, Clone
from tests.support.local import REPOSITORY

# Unit tests have no clock: a property may take as long as a busy machine needs.
settings.register_profile("unit", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unit")


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    """A fresh clone, with the files that set-up reads."""
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(REPOSITORY / name, tmp_path / name)
    return Clone(tmp_path)


@pytest.fixture
def ready(clone: Clone) -> Clone:
    """A clone whose set-up is done, with programs in the place of Python and Spark."""
    python = f"""case "$*" in
      *'replication slots wrong.yaml --start'*) echo wrong >&2; exit 2 ;;
      *'replication validate'*) ;;
      *'replication slots'*) [ "$4" != unreachable.yaml ] || exit 3; echo 14 ;;
      *) exec '{sys.executable}' "$@" ;;
    esac"""
    clone.program("home/venv/bin/python", python)
    stamps = """
      repo=$1 && source "$repo/conf/set-up.sh" && mkdir "$home/ready" && find_java
      echo compiled >"$our_jar" && our_jar_made_from >"$our_jar.sum"
      stamp spark "$(packages_made_from)" && stamp jars-spark "$(jars_made_from)"
      stamp class-archive "$(archive_made_from "$(packages_made_from)" "$(jars_made_from)")" """
    subprocess.run(
        ["bash", "-euc", stamps, "bash", str(clone.folder)],  # noqa: S607
        env=clone.environment({}),
        check=True,
    )
    # which the script runs as a file
    (clone.folder / "replication/deploy").symlink_to(REPOSITORY / "replication" / "deploy")
    (clone.home / "jars/spark").mkdir(parents=True)
    (clone.home / "jars/spark/connector.jar").touch()
    return clone
