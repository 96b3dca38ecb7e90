"""The lists in force, and what is said where nobody can read them. No cluster is asked."""

from pathlib import Path

import pytest

from replication.config.file import load_config
from replication.control.changed import known_flow, known_in_force
from replication.control.overrides import flows_in_a_circle, new_change
from replication.errors import StateError
from replication.features.doctor.examine import CHANGES, Start, with_changes
from replication.model import Flow
from replication.serve.questions import Questions
from replication.state.change_files import ChangeFiles
from replication.state.files import LocalFiles
from tests.support.cli import ok, run

FLOW = Flow("A", "B")
FILE = """
clusters: [A, B]
A.bootstrap.servers: 127.0.0.1:1
B.bootstrap.servers: 127.0.0.1:1
A->B: {{enabled: true, topics: [orders]}}
B->A: {{enabled: {both}, topics: [other]}}
emit.heartbeats.enabled: false
replication.policy.class: org.apache.kafka.connect.mirror.IdentityReplicationPolicy
state.dir: {state}
"""


def written(folder: Path, *, both: bool = False) -> Path:
    path = folder / "mirror.yaml"
    path.write_text(FILE.format(state=(folder / "state").as_uri(), both=str(both).lower()))
    return path


def changed(file: Path, *topics: str) -> None:
    """An operator has put *topics* in the list."""
    state = (file.parent / "state").as_uri()
    ChangeFiles(LocalFiles(), state, FLOW).write(new_change(FLOW, "topics.add", topics))


def unreadable(file: Path) -> None:
    """Nobody can list the changes: there is a file in the place of their folder."""
    control = file.parent / "state" / "_control"
    control.parent.mkdir()
    control.write_text("")


def test_lists_in_force_are_those_of_the_file_where_nobody_can_read_them(tmp_path: Path) -> None:
    config = load_config(str(written(tmp_path)))
    unreadable(written(tmp_path))

    known, doubt = known_in_force(config)
    assert known == config
    assert "what operators have changed is not known, so the lists are those of" in doubt
    assert known_flow(config, config.flows[0]) == (config.flows[0], (doubt,))


def test_doctor_judges_the_lists_in_force(tmp_path: Path) -> None:
    file = written(tmp_path)
    changed(file, "payments")
    start = Start(config=load_config(str(file)), master="local", heap_mb=1024, environ={})

    found, rows = with_changes(start)
    assert found.config.flows[0].topics == ("orders", "payments")
    assert rows == ()


def test_doctor_says_that_changes_are_unknown_and_looks_at_the_rest(tmp_path: Path) -> None:
    file = written(tmp_path)
    unreadable(file)
    start = Start(config=load_config(str(file)), master="local", heap_mb=1024, environ={})

    found, (row,) = with_changes(start)
    assert found == start
    assert (row.what, row.verdict) == (CHANGES, "unknown")
    assert "what operators have changed is not known" in row.found


def test_loops_before_a_start_are_those_of_the_lists_in_force(tmp_path: Path) -> None:
    file = written(tmp_path, both=True)
    changed(file, "other")

    first, second = flows_in_a_circle(load_config(str(file)))
    assert (first.topics, second.topics) == (("orders", "other"), ("other",))


def test_loops_are_looked_for_by_the_file_where_changes_cannot_be_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = written(tmp_path, both=True)
    unreadable(file)

    assert [flow.topics for flow in flows_in_a_circle(load_config(str(file)))] == [
        ("orders",),
        ("other",),
    ]
    assert "loops_not_checked" in caplog.text
    assert "what operators have changed is not known" in caplog.text


def test_flows_without_a_circle_are_not_asked_about(tmp_path: Path) -> None:
    assert flows_in_a_circle(load_config(str(written(tmp_path)))) == []


def test_acls_are_those_of_the_lists_in_force(tmp_path: Path) -> None:
    file = written(tmp_path)
    assert "payments" not in ok(run("acls", file)).stdout
    changed(file, "payments")

    found = ok(run("acls", file))
    assert "--topic 'payments'" in found.stdout
    assert "--topic 'orders'" in found.stdout
    assert "not known" not in found.stderr


def test_acls_say_that_they_are_of_the_file_where_changes_cannot_be_read(tmp_path: Path) -> None:
    file = written(tmp_path)
    unreadable(file)

    found = ok(run("acls", file))
    assert "--topic 'orders'" in found.stdout
    assert "what operators have changed is not known" in found.stderr


def test_rest_accepts_nothing_while_changes_cannot_be_read(tmp_path: Path) -> None:
    file = written(tmp_path)
    unreadable(file)
    config = load_config(str(file))

    with pytest.raises(StateError, match="cannot list the changes of A->B"):
        Questions(config).acceptance(config.flows[0], ("orders", None), "earliest")
