"""Commands that change a flow: what they refuse, and what they say. No cluster is asked."""

import json
from pathlib import Path

import pytest
from click.testing import Result

from replication.config.file import load_config
from replication.control.overrides import new_change
from replication.control.preview import unmatched
from replication.model import Flow
from replication.state.change_files import ChangeFiles
from replication.state.files import LocalFiles
from tests.support.cli import ok, run
from tests.support.said import SaidLines

FLOW = Flow("A", "B")
CONFIG = """
clusters: [A, B]
A.bootstrap.servers: nowhere:9092
B.bootstrap.servers: nowhere:9093
A->B: {{enabled: true, topics: [orders, "clicks.*"], topics.exclude: [old]}}
B->A: {{enabled: {both}}}
state.dir: {state}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return written(tmp_path)


def written(folder: Path, *, both: bool = False) -> Path:
    path = folder / "mirror.yaml"
    state = (folder / "state").as_uri()
    path.write_text(CONFIG.format(state=state, both=str(both).lower()))
    return path


def changes(file: Path) -> ChangeFiles:
    return ChangeFiles(LocalFiles(), (file.parent / "state").as_uri(), FLOW)


def limit(file: Path, size: str) -> Result:
    """A change that needs no cluster for its preview."""
    return ok(run("limit", file, "--bytes", size, "--wait", 0))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("topics", "--add", "orders"), "'orders' is in topics already"),
        (("topics", "--add", "a,b"), "has a comma"),
        (("topics", "--add", "a("), "not a supported pattern"),
        (("topics", "--remove", "order"), "did you mean 'orders'?"),
        (("topics", "--remove", "clicks.eu"), r"--exclude 'clicks\.eu' leaves it out"),
        (("topics", "--include", "clicks"), "no item of topics.exclude"),
        (("topics",), "write one of --add, --remove, --exclude, --include"),
        (("topics", "--add", "a", "--remove", "b"), "write one of --add"),
        (("topics", "--add", "a", "--flow", "B->A"), "no such enabled flow"),
        (("group-lists", "--remove", "billing"), "--exclude billing leaves it out"),
        (("resume",), "the flow is not paused as a whole; nothing is paused"),
        (("resume", "--topic", "orders"), "'orders' is not paused by itself"),
        (("pause", "--partition", "3"), "it needs exactly one --topic"),
        (("pause", "--topic", "o.*", "--partition", "3"), "is no name of a topic"),
        (("pause", "--topic", "o("), "not a supported pattern"),
        (("hold", "a failover"), "'a failover' cannot name an operation; write letters"),
        (("hold", ""), "'' cannot name an operation"),
        (("hold", "x" * 101), "at most 100"),
        (("release", "dr-1"), "dr-1 does not hold the flow; nothing does"),
        (("limit", "--bytes", "1"), "below the lowest limit"),
        (("limit", "--records", "0"), "end the limit of a running flow with limit --none"),
        (("limit", "--none"), "the flow as a whole has no limit; nothing is limited"),
        (("limit", "--none", "--topic", "clicks"), "'clicks' has no limit"),
        (("limit", "--bytes", "fast"), "is no rate"),
        (("limit",), "write --bytes, --records or both, or --none"),
        (("limit", "--none", "--bytes", "5MB"), "write --bytes, --records or both, or --none"),
        (("undo", "7"), "A->B has no such change, and nothing was ever changed"),
        (("undo", "x"), "has no such change"),
        (("history", "--flow", "X->Y"), "no such enabled flow"),
    ],
)
def test_what_cannot_be_done_is_refused(file: Path, arguments: tuple[str, ...], says: str) -> None:
    command, *rest = arguments
    refused = run(command, file, *rest)

    assert refused.exit_code == 2
    assert says in refused.output.replace("\n", " ")
    assert changes(file).read().changes == ()


def test_a_limit_that_has_ended_leaves_no_change_in_force(file: Path) -> None:
    ok(run("limit", file, "--bytes", "5MB", "--wait", 0))
    steering = changes(file).read()
    (configured,) = load_config(str(file)).flows
    limited = steering.with_effect(configured)
    ok(run("limit", file, "--none", "--wait", 0))

    assert [each.text for each in limited] == ["limit bytes=5000000"]
    assert changes(file).read().with_effect(configured) == ()
    found = json.loads(ok(run("history", file, "--json")).output)["changes"]
    states = ["replaced by a later change", "without effect: the file says the same"]
    assert [each["state"] for each in found] == states
    assert "limit none" in ok(run("history", file)).output


def test_a_flow_must_be_named_where_the_file_has_several(tmp_path: Path) -> None:
    refused = run("limit", written(tmp_path, both=True), "--bytes", "5MB")

    assert refused.exit_code == 2
    assert "--flow is missing" in refused.output


def test_history_says_who_why_and_what_is_in_force(file: Path) -> None:
    ok(run("limit", file, "--bytes", "5MB", "--reason", "CHG-117", "--wait", 0))
    limit(file, "8MB")
    ok(run("undo", file, 2, "--wait", 0, "--reason", "too much"))
    limit(file, "9MB")

    found = json.loads(ok(run("history", file, "--json")).output)["changes"]

    assert [each["state"] for each in found] == [
        "replaced by a later change",
        "undone",
        "in force",
        "in force",
    ]
    assert found[0]["reason"] == "CHG-117"
    assert "@" in found[0]["by"]
    assert "undo 2" in ok(run("history", file)).output
    assert json.loads(ok(run("history", file, "--since", "2999-01-01", "--json")).output) == {
        "changes": []
    }


def test_a_reason_that_is_no_text_is_kept_in_escapes(file: Path) -> None:
    ok(run("limit", file, "--bytes", "5MB", "--reason", "no UTF-8: \udcff", "--wait", 0))

    (found,) = json.loads(ok(run("history", file, "--json")).output)["changes"]
    assert found["reason"] == r"no UTF-8: \udcff"
    assert changes(file).read().number == 1


def test_what_matches_nothing_is_said_with_what_may_be_meant() -> None:
    names = ["orders", "orders.eu", "clicks"]

    assert unmatched(["orders", "cl.*"], names, "topic") == []
    assert unmatched(["oders", "x[0-9]"], names, "topic") == [
        "'oders' is no topic now; did you mean 'orders'?",
        "'x[0-9]' is no topic now",
    ]


def test_a_half_written_change_counts_as_absent_and_commands_say_so(
    file: Path, said: SaidLines
) -> None:
    limit(file, "5MB")
    half = f"change-A-to-B@{2:010d}-{'a' * 32}"
    (file.parent / "state" / "_control" / half).write_text('{"flow": ')

    shown = json.loads(ok(run("history", file, "--json")).stdout)["changes"]

    assert [each["number"] for each in shown] == [1]
    (line,) = said.of("change_unreadable")
    assert str(line.fields["path"]).endswith(half)


def test_what_is_held_goes_on_once_all_who_hold_it_have_released_it(file: Path) -> None:
    for operation in ("dr-1", "dr-2"):
        ok(run("hold", file, operation, "--wait", 0))
    again, wrong = run("hold", file, "dr-1"), run("release", file, "dr-3")
    resumed = run("resume", file)
    ok(run("pause", file, "--wait", 0))
    still = ok(run("resume", file, "--wait", 0)).output
    ok(run("pause", file, "--wait", 0))
    undone = ok(run("undo", file, 1, "--dry-run")).output
    first = ok(run("release", file, "dr-1", "--wait", 0)).output
    second = ok(run("release", file, "dr-2", "--wait", 0)).output
    paused = changes(file).read().paused.flow
    ok(run("resume", file, "--wait", 0))

    assert [each.exit_code for each in (again, wrong, resumed)] == [2, 2, 2]
    assert "dr-1 holds the flow already" in again.output
    assert "dr-3 does not hold the flow; did you mean dr-" in wrong.output
    release = "python -m replication release FILE --flow 'A->B' dr-"
    assert f"is held by dr-1, dr-2: once that has ended, {release}1" in resumed.output
    assert f"warning: flow A->B is held by dr-1, dr-2: once that has ended, {release}1" in still
    assert f"is held by dr-2: once that has ended, {release}2" in undone
    assert f"is held by dr-2: once that has ended, {release}2" in first
    assert "warning: the flow stays paused as a whole: resume it as well" in second
    assert paused
    assert not changes(file).read().paused


def test_an_undo_can_be_undone_but_not_repeated(file: Path) -> None:
    limit(file, "5MB")
    ok(run("undo", file, 1, "--wait", 0))
    again = run("undo", file, 1, "--wait", 0)
    ok(run("undo", file, 2, "--wait", 0))

    assert again.exit_code == 2
    assert "it is undone already; undo that undo instead" in again.output
    assert [each.number for each in changes(file).read().in_force] == [1]


def test_of_two_changes_with_one_number_the_id_says_which(file: Path) -> None:
    limit(file, "5MB")
    made = changes(file).write(new_change(FLOW, "limit", ["bytes=7000"], scope="clicks"))
    folder = file.parent / "state" / "_control"
    (folder / f"change-A-to-B@{made.name}").rename(folder / f"change-A-to-B@{1:010d}-{made.id}")

    asked = run("undo", file, 1, "--wait", 0)
    ok(run("undo", file, f"1-{made.id[:8]}", "--wait", 0))

    assert asked.exit_code == 2
    assert "several changes have this number" in asked.output
    assert made.id in changes(file).read().undone


def test_a_dry_run_changes_nothing_and_says_so(file: Path) -> None:
    shown = ok(run("limit", file, "--bytes", "5MB", "--dry-run"))
    as_json = ok(run("limit", file, "--bytes", "5MB", "--dry-run", "--json"))

    assert "dry run: nothing is changed" in shown.output
    assert json.loads(as_json.output)["items"] == ["bytes=5000000"]
    assert changes(file).read().changes == ()


def test_the_lists_in_force_are_shown_with_what_was_changed(file: Path) -> None:
    changes(file).write(new_change(FLOW, "topics.add", ["events"]))
    changes(file).write(new_change(FLOW, "topics.remove", ["orders"]))

    shown = ok(run("topics", file, "--list")).output
    of_srm = ok(
        run("srm-control", "topics", "--source", "A", "--target", "B", "--config", file, "--list")
    ).output

    assert "  events  (changed: not in the file)" in shown
    assert "  - orders  (changed: taken out)" in shown
    assert of_srm == shown


def test_a_folder_that_cannot_be_listed_is_an_error_of_the_state(file: Path) -> None:
    (file.parent / "state").mkdir()
    (file.parent / "state" / "_control").write_text("no folder")

    refused = run("limit", file, "--bytes", "5MB", "--json")

    assert refused.exit_code == 7
    assert json.loads(refused.stderr)["code"] == "state"
