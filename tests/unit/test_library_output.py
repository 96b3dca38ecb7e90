"""What libraries print past Python is logged, and a panic of delta-rs only for a developer."""

import json
import logging
import subprocess
import sys
from pathlib import Path

from replication.app.process import levels

START = """
import logging, os, resource, sys
from replication.app.process import take_library_output
from replication.log import Log, configure
take_library_output()
configure("json")
"""
PANICS = """
from arro3.core import Array, DataType, Table
from deltalake import write_deltalake
column = Array([os.urandom(32).hex() for _ in range(20_000)], DataType.string())
table = Table.from_pydict({"a": column})
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
try:
    write_deltalake(sys.argv[1], table)
except Exception as error:
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    Log("test").error("not_written", text=error)
"""
PRINTS = """
os.write(2, b"free(): invalid\\n\\xff\\n")
print("of Python", file=sys.stderr)
os.write(2, b"no end")
"""


def run(program: str, *arguments: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-c", START + program, *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stderr


def test_a_panic_of_delta_rs_is_not_in_the_log(tmp_path: Path) -> None:
    code, text = run(PANICS, str(tmp_path / "table"))

    assert code == 0, text
    (line,) = map(json.loads, text.splitlines())
    assert line["event"] == "not_written"
    assert "File too large" in line["text"], "the cause comes by the error"


def test_a_developer_sees_the_panic(tmp_path: Path) -> None:
    code, text = run("logging.getLogger().setLevel('DEBUG')" + PANICS, str(tmp_path / "table"))

    assert code == 0, text
    lines = [json.loads(line) for line in text.splitlines()]
    panic = [line for line in lines if line["event"] == "library_output"]
    assert "panicked at" in panic[0]["text"]
    assert {line["level"] for line in panic} == {"DEBUG"}


def test_what_a_library_prints_is_logged_until_the_end() -> None:
    code, text = run(PRINTS)

    assert code == 0, text
    lines = text.splitlines()
    assert "of Python" in lines, "as it is"
    logged = [json.loads(line) for line in lines if line != "of Python"]
    assert [(line["level"], line["event"], line["text"]) for line in logged] == [
        ("WARNING", "library_output", "free(): invalid"),
        ("WARNING", "library_output", "\N{REPLACEMENT CHARACTER}"),
        ("WARNING", "library_output", "no end"),
    ]


def test_a_crash_leaves_its_stack() -> None:
    code, text = run("os.abort()")

    assert code < 0
    assert "Fatal Python error: Aborted" in text


def test_a_panic_ends_with_its_note() -> None:
    panic = [
        "\n",
        "thread 'a b' (12) panicked at x.rs:1:2:\n",
        "Already shut down\n",
        "note: run\n",
    ]

    assert list(levels([*panic, "something else\n"])) == [
        *((logging.DEBUG, line.strip()) for line in panic[1:]),
        (logging.WARNING, "something else"),
    ]
