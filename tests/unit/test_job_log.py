"""The log of a job from its first line to its last: of the script, of Spark, and of what failed.

Spark is a small script in these tests, which writes what a JVM and its Python may write.
"""

import json
import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from replication.deploy.json_lines import entry
from tests.support.clone import Clone

JSON = ("--config", "a.yaml", "--log-format", "json")
AT = 1_769_860_800.25
FRAME = 1024
"""Spark passes on what its Python writes in parts of this size."""


def submits(clone: Clone, text: str) -> None:
    clone.program("home/venv/bin/spark-submit", text)


def entries(text: str) -> list[dict[str, Any]]:
    """The JSON objects of a log; each line must be one."""
    found = [json.loads(line) for line in text.splitlines()]
    assert all(isinstance(one, dict) for one in found)
    return found


@pytest.mark.parametrize(
    ("line", "level"),
    [
        pytest.param("OpenJDK 64-Bit Server VM warning: no room", "WARNING", id="of the JVM"),
        pytest.param('java.lang.IllegalStateException: "a"', "WARNING", id="an exception"),
        pytest.param("Picked up JAVA_TOOL_OPTIONS: -Da=b", "INFO", id="news"),
        pytest.param("{not json", "INFO", id="braces"),
        pytest.param("\x1b[31mred\x00", "INFO", id="control characters"),
    ],
)
def test_a_line_of_an_unknown_program_becomes_an_object(line: str, level: str) -> None:
    assert json.loads(entry(line, AT)) == {
        "time": "2026-01-31T12:00:00.250Z",
        "level": level,
        "event": "output",
        "text": line,
    }


def test_a_line_that_is_an_object_stays_as_it_is() -> None:
    assert entry('{"a":  1}', AT) == '{"a":  1}'


def test_every_line_of_a_run_is_json(ready: Clone) -> None:
    submits(
        ready,
        """
        printf 'Picked up JAVA_TOOL_OPTIONS\\n\\n  at Frame.java\\n' >&2
        printf 'not \\377 UTF-8\\n' >&2
        echo '{"event": "from Python"}'
        printf 'no end'
        """,
    )

    code, out, err = ready.run(*JSON)

    assert (code, out) == (0, "")
    said = entries(err)
    assert [one["text"] for one in said if one["event"] == "output"] == [
        "Picked up JAVA_TOOL_OPTIONS",
        "  at Frame.java",
        "not \N{REPLACEMENT CHARACTER} UTF-8",
        "no end",
    ]
    assert {"event": "from Python"} in said
    assert said[0]["event"] == "script"
    assert said[0]["text"].startswith("to stop this job: ")


def test_a_line_that_comes_in_parts_stays_one(ready: Clone) -> None:
    long = "x" * 3 * FRAME
    submits(
        ready,
        f"""
        for part in '{{"text": "' {long[:FRAME]} {long[FRAME:]}; do
          printf %s "$part"
          echo 'a line of the JVM' >&2
        done
        echo '"}}'
        """,
    )

    code, _, err = ready.run(*JSON)

    assert code == 0
    assert [one["text"] for one in entries(err)].count("a line of the JVM") == 3
    assert {"text": long} in entries(err)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        pytest.param(["--config"], "--config needs a value", id="no value"),
        pytest.param(["--confg", "a"], "unknown argument '--confg'", id="unknown"),
        pytest.param(["--job", "x"], "--job is mirror, replicate", id="job"),
    ],
)
def test_wrong_usage_is_one_object(clone: Clone, arguments: list[str], text: str) -> None:
    code, out, err = clone.run("--log-format=json", *arguments)

    assert (code, out) == (2, "")
    (line,) = entries(err)
    assert (line["level"], line["event"], line["fields"]) == (
        "ERROR",
        "job_ended",
        {"exit_code": 2},
    )
    assert line["text"].startswith(text)


def test_a_machine_without_java_is_one_object(ready: Clone) -> None:
    java = ready.folder / 'no "java"\n\there'

    code, out, err = ready.run(*JSON, JAVA_HOME=str(java))

    assert (code, out) == (2, "")
    (line,) = entries(err)
    assert (line["event"], line["fields"]) == ("job_ended", {"exit_code": 2})
    assert line["text"].startswith("no Java at '")
    assert '"java"\n here/bin/java' in line["text"]


def test_a_machine_without_python_is_one_object(clone: Clone) -> None:
    tools = clone.folder / "tools"
    tools.mkdir()
    for tool in (
        "bash",
        "cat",
        "cksum",
        "date",
        "dirname",
        "locale",
        "mkdir",
        "mktemp",
        "sed",
        "tail",
    ):
        (tools / tool).symlink_to(f"/usr/bin/{tool}")
    clone.program("tools/java", "echo 'openjdk version \"21.0.1\"' >&2")
    clone.program("tools/javac", "true")

    code, out, err = clone.run(*JSON, PATH=str(tools), PYTHON="/no/python")

    assert (code, out) == (2, "")
    assert [one["event"] for one in entries(err)] == ["job_ended"]
    assert "no Python >= 3.10 among: /no/python" in entries(err)[0]["text"]


@pytest.mark.parametrize("arguments", [JSON[:2], JSON], ids=["text", "json"])
@pytest.mark.parametrize(
    ("program", "code", "cause"),
    [
        pytest.param("kill -KILL $$", 137, "the job was killed (SIGKILL)", id="killed"),
        pytest.param("kill -ABRT $$", 134, "the job was killed (SIGABRT)", id="crashed"),
        pytest.param("exit 1", 1, "the job has ended without a cause of its own", id="launcher"),
    ],
)
def test_the_last_line_is_the_exit_code_and_the_cause(
    ready: Clone, arguments: tuple[str, ...], program: str, code: int, cause: str
) -> None:
    submits(ready, f"echo 'the last words of Spark' >&2; {program}")

    found, _, err = ready.run(*arguments)

    assert found == code
    if arguments == JSON:
        line = entries(err)[-1]
        assert (line["event"], line["fields"]) == ("job_ended", {"exit_code": code})
        assert line["text"].startswith(cause)
    else:
        assert err.splitlines()[-1].startswith(f"spark-submit.sh: exit code {code}: {cause}")


def test_what_the_job_has_said_last_is_not_said_again(ready: Clone) -> None:
    submits(ready, 'echo "the cause" >&2; touch "$REPLICATION_RUN/ended"; exit 3')

    code, _, err = ready.run("--config", "a.yaml")

    assert (code, err.splitlines()[-1]) == (3, "the cause")


def test_a_refused_start_has_said_its_cause_last(ready: Clone) -> None:
    code, _, err = ready.run("--config", "wrong.yaml")

    assert (code, err) == (2, "wrong\n")


def test_the_log_goes_on_when_the_script_is_killed(ready: Clone) -> None:
    submits(ready, 'echo $PPID; read -r < "$REPLICATION_HOME/go"; echo last words >&2')
    os.mkfifo(ready.home / "go")
    with ready.start(*JSON) as process:
        assert process.stderr is not None
        script = next(
            int(one["text"]) for one in map(json.loads, process.stderr) if one["text"].isdigit()
        )
        os.kill(script, signal.SIGKILL)
        process.wait()
        threading.Thread(target=(ready.home / "go").write_text, args=["\n"], daemon=True).start()
        rest = process.stderr.read()

    assert [one["text"] for one in entries(rest)] == ["last words"]


def test_ctrl_c_does_not_end_the_log(ready: Clone) -> None:
    wait = 'until [ -e "$REPLICATION_STOP_FILE" ]; do sleep 0.1; done'
    submits(ready, f"echo started >&2; {wait}; echo stopped >&2")
    with ready.start(*JSON) as process:
        assert process.stderr is not None
        assert any(json.loads(line)["text"] == "started" for line in process.stderr)
        for one in (writer_of(process.pid), process.pid):  # as a terminal does
            os.kill(one, signal.SIGINT)
        rest = process.stderr.read()

    assert process.returncode == 0
    assert "stopped" in [one["text"] for one in entries(rest)]


def writer_of(pid: int) -> int:
    """The process that writes the log of the script."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    commands = {child: Path(f"/proc/{child}/cmdline").read_text() for child in children}
    return next(int(child) for child in children if "json_lines.py" in commands[child])


def test_a_dry_run_prints_a_command_and_no_json(ready: Clone) -> None:
    code, out, err = ready.run(*JSON, "--dry-run")

    assert (code, err) == (0, "")
    assert "-Dreplication.log.format=json" in out
