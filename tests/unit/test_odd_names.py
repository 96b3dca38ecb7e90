"""Names that users of Kafka may give, and texts of brokers, as commands print them."""

import json

import pytest

from replication.cli.options import print_json, print_table, say
from replication.features.doctor.check_result import CheckResult, script

ODD = (
    "[red]group[/red]",
    "[/closed]",
    "a/b c",
    "gruppe-ü-组",
    "two\nlines",
    "\x1b[2Jcleared",
    "\u202eright to left",
    "",
)


@pytest.mark.parametrize("name", ODD)
def test_a_table_shows_a_name_as_it_is(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    print_table(f"groups of {name}", ("group", "sync"), [(name, "in-step")])

    printed = capsys.readouterr().out
    (row,) = [line for line in printed.splitlines() if "in-step" in line]
    cell = row.split("│")[1].strip()
    assert cell == (name if name.isprintable() else name.encode("unicode_escape").decode())
    assert all(char.isprintable() or char == "\n" for char in printed)


@pytest.mark.parametrize("name", ODD)
def test_a_line_stays_one_line(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    say(f"group {name} is missing")

    printed = capsys.readouterr().out
    assert printed.count("\n") == 1
    assert printed[:-1].isprintable()


@pytest.mark.parametrize("name", [*ODD, "\x7f", "\ud800"])
def test_json_has_a_name_as_it_is(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"group": name})

    assert json.loads(capsys.readouterr().out) == {"group": name}


def test_a_text_of_two_lines_gives_no_command_in_a_script() -> None:
    text = "rejected:\n  - reboot now"
    found = CheckResult(what="x", found=text, verdict="warning", next_step="ask\nhalt")

    assert list(script([found])) == ["# x: rejected: - reboot now", "# ask halt"]
