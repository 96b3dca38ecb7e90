"""What a machine lacks is said in a line each, all at once, before Spark starts."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from replication.control.machine import (
    Machine,
    MachinePlace,
    java_temporary_obstacle,
    look,
    problems,
    warnings,
)
from tests.support.one_flow_files import YAML
from tests.support.settings import load_file

FIT = Machine(host="h")


@pytest.mark.parametrize(
    ("facts", "master", "said"),
    [
        pytest.param({}, "yarn", "", id="nothing to say"),
        pytest.param({"has_address": False}, "local[4]", "", id="a local driver needs no name"),
        pytest.param({"has_address": False}, "spark://m:7077", "'h' has no address", id="host"),
        pytest.param({"has_local_ip": False}, "local[4]", "SPARK_LOCAL_IP", id="SPARK_LOCAL_IP"),
        pytest.param({"umask": 0o777}, "local[4]", "umask 0777", id="umask"),
        pytest.param({"umask": 0o077}, "local[4]", "", id="a careful umask"),
        pytest.param(
            {"places": (MachinePlace(name="the checkout", path="/a:b", is_listed=True),)},
            "local[4]",
            "the checkout /a:b has ':' in its path",
            id="a separator",
        ),
        pytest.param(
            {"places": (MachinePlace(name="the checkout", path="/a b's #1%", is_listed=True),)},
            "local[4]",
            "",
            id="other characters",
        ),
        pytest.param(
            {"places": (MachinePlace(name="the configuration", path=os.fsdecode(b"/j\xf6rg")),)},
            "local[4]",
            "'/j\\udcf6rg' is not UTF-8",
            id="not UTF-8",
        ),
    ],
)
def test_a_problem_is_one_line(facts: dict[str, Any], master: str, said: str) -> None:
    found = problems(replace(FIT, **facts), master)

    assert len(found) == bool(said)
    assert not said or said in found[0]


def test_all_problems_are_said_at_once() -> None:
    machine = replace(FIT, umask=0o700, has_local_ip=False)

    assert len(problems(machine, "yarn")) == 2


def test_what_lasts_in_a_folder_that_is_cleaned_and_a_heap_beyond_the_memory_are_warnings() -> None:
    place = MachinePlace(name="state.dir", path="/tmp/state", is_lasting=True)  # noqa: S108 - the rule
    machine = replace(FIT, memory_mb=1024, places=(place,))

    state, heap = warnings(machine, 2048)
    assert state.startswith("state.dir /tmp/state lies in a folder that systems clean")
    assert heap.startswith("the driver's heap may grow to 2048 MB, and this machine has 1024 MB")


def test_this_machine_is_seen_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    more = f"state.dir: file://{tmp_path}/file/state\n"
    config = load_file(tmp_path, YAML + more, "c.yaml")

    (tmp_path / "spark-env.sh").write_text("export SPARK_HOME=/opt/other\n")
    machine = look(
        config,
        {
            "SPARK_LOCAL_IP": "203.0.113.9",
            "SPARK_LOCAL_DIRS": f"{tmp_path},{tmp_path}/file",
            "SPARK_CONF_DIR": str(tmp_path),
        },
    )

    assert machine.memory_mb > 0
    dirs, state, address, spark = problems(machine, "local[4]")
    assert f"{tmp_path}/file of SPARK_LOCAL_DIRS" in dirs
    assert f"state.dir {tmp_path}/file/state cannot be a folder" in state
    assert address.startswith("SPARK_LOCAL_IP is no address of this machine")
    assert "a spark-env.sh that sets SPARK_HOME=/opt/other" in spark


def test_java_needs_a_temporary_folder_that_it_may_write(tmp_path: Path) -> None:
    assert java_temporary_obstacle(str(tmp_path)) == ""
    assert "cannot be written" in java_temporary_obstacle("/proc/1")
    assert "-Djava.io.tmpdir=FOLDER" in java_temporary_obstacle(str(tmp_path / "missing"))
