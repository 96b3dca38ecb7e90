"""Where Spark's tasks run, by the master's name."""

import pytest

from replication.config.checks import local_state_problem
from replication.model import is_local_mode, local_slots


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*]", "local[*,4]", "local[2,4]"])
def test_tasks_of_a_local_master_run_in_the_driver(master: str) -> None:
    assert is_local_mode(master)
    assert local_state_problem("file:/state", master) is None


@pytest.mark.parametrize(
    "master",
    ["local-cluster[2,1,1024]", "yarn", "k8s://https://a:6443", "spark://host:7077", "localhost"],
)
def test_tasks_of_any_other_master_run_in_executors(master: str) -> None:
    assert not is_local_mode(master)
    assert local_state_problem("file:/state", master) == (
        f"state.dir: file:/state is a local folder, but the Spark master is {master}; write a "
        "directory that every node reaches, such as hdfs:///replication"
    )


def test_a_job_whose_master_is_not_known_is_not_local() -> None:
    assert not is_local_mode(None)


@pytest.mark.parametrize(("master", "slots"), [("local[4]", 4), ("local[4,2]", 4)])
def test_a_local_master_may_say_its_slots(master: str, slots: int) -> None:
    assert local_slots(master) == slots


@pytest.mark.parametrize("master", ["", "local", "local[*]", "local-cluster[2,4,512]", "yarn"])
def test_the_slots_of_any_other_master_are_not_in_its_name(master: str) -> None:
    assert local_slots(master) is None
