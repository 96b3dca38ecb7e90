"""Log lines have one shape, as text and as JSON."""

import json
import logging
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from replication.log import (
    LONGEST_CAUSE,
    SCRIPT_FORMAT,
    JsonFormatter,
    Log,
    TextFormatter,
    configure,
    log_end,
    print_failure,
)
from replication.model import Flow, TopicPartition
from tests.support.waiting import wait_until

FLOW = Flow("A", "B")
NAME = "replication.test"

log = Log(NAME)
of_flow = log.bind(FLOW)


@pytest.fixture(autouse=True)
def _levels() -> Iterator[None]:
    """Puts back what `configure` changes for the whole process."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture
def _tokyo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Local time that differs from UTC."""
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        pytest.param({}, "event=restarting", id="no flow"),
        pytest.param(
            {"generation": 3, "mode": "realtime", "ok": True, "end": None},
            "event=restarting generation=3 mode=realtime ok=true end=null",
            id="fields keep their order",
        ),
        pytest.param(
            {"text": "two words", "partition": TopicPartition("orders", 0)},
            'event=restarting partition=orders-0 text="two words"',
            id="text comes last",
        ),
        pytest.param({"text": "word"}, "event=restarting text=word", id="a word needs no quotes"),
        pytest.param(
            {"a": "", "b": 'x"y', "c": "k=v", "d": "back\\slash"},
            r'event=restarting a="" b="x\"y" c="k=v" d="back\\slash"',
            id="what would be misread is quoted",
        ),
        pytest.param(
            {"text": "größte\nzuerst:\n  - a\n    next.\nMore\n"},
            'event=restarting text="größte; zuerst: a; next. More"',
            id="lines become one",
        ),
        pytest.param(
            {"text": "\x1b[31m\u2028\x9b"},
            r'event=restarting text="\u001b[31m\u2028\u009b"',
            id="nothing controls the terminal",
        ),
        pytest.param({"topic": "größe"}, "event=restarting topic=größe", id="letters stay letters"),
        pytest.param(
            {"text": ValueError("bad value")}, 'event=restarting text="bad value"', id="an error"
        ),
    ],
)
def test_the_text_shape(
    fields: dict[str, object], line: str, caplog: pytest.LogCaptureFixture
) -> None:
    log.warning("restarting", **fields)

    assert [record.getMessage() for record in caplog.records] == [line]


def test_the_flow_of_a_bound_log_comes_first(caplog: pytest.LogCaptureFixture) -> None:
    of_flow.warning("restarting", generation=3)
    log.warning("restarting", generation=3)

    assert [record.getMessage() for record in caplog.records] == [
        "flow=A->B event=restarting generation=3",
        "event=restarting generation=3",
    ]


@pytest.mark.usefixtures("_tokyo")
def test_text_lines_start_with_the_utc_time_and_the_level(
    caplog: pytest.LogCaptureFixture,
) -> None:
    of_flow.error("restarting")
    record = caplog.records[0]
    record.created, record.msecs = 86_400.25, 250.0

    assert TextFormatter().format(record) == (
        "1970-01-02T00:00:00.250Z ERROR flow=A->B event=restarting"
    )


def test_a_json_line_has_a_key_for_each_part(caplog: pytest.LogCaptureFixture) -> None:
    of_flow.error("restarting", generation=3, partition=TopicPartition("t", 0), text="a\nb")
    record = caplog.records[0]
    record.created, record.msecs = 86_400.25, 250.0
    line = JsonFormatter().format(record)

    assert "\n" not in line
    assert json.loads(line) == {
        "time": "1970-01-02T00:00:00.250Z",
        "level": "ERROR",
        "flow": "A->B",
        "event": "restarting",
        "fields": {"generation": 3, "partition": "t-0"},
        "text": "a\nb",
    }


def test_an_internal_error_keeps_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    try:
        dict[str, str]()["missing"]
    except KeyError:
        of_flow.exception("flow_failed")
    record = caplog.records[0]
    text, entry = TextFormatter().format(record), json.loads(JsonFormatter().format(record))

    assert text.splitlines()[0].endswith("ERROR flow=A->B event=flow_failed")
    assert text.splitlines()[-1] == "KeyError: 'missing'"
    assert entry["traceback"].splitlines()[-1] == "KeyError: 'missing'"


def test_another_library_gets_the_same_shape(caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("py4j").warning("lost %d connections", 2)
    record = caplog.records[0]

    assert (
        TextFormatter()
        .format(record)
        .endswith('WARNING event=library_message logger=py4j text="lost 2 connections"')
    )
    assert json.loads(JsonFormatter().format(record))["text"] == "lost 2 connections"


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_configure_logs_to_stderr_from_info_on(
    log_format: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging, "raiseExceptions", True)
    configure("json" if log_format == "json" else "text")
    log.debug("client_log")
    of_flow.info("generation_started")
    written = capsys.readouterr()

    assert written.out == ""
    assert "client_log" not in written.err
    assert len(written.err.splitlines()) == 1
    assert written.err.startswith("{") == (log_format == "json")


def test_only_our_own_lines_are_logged_from_debug_on(capsys: pytest.CaptureFixture[str]) -> None:
    configure("text", "debug")
    log.debug("client_log")
    logging.getLogger("py4j").debug("a line for each call")
    configure()
    log.debug("client_log")

    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith("DEBUG event=client_log")


def test_other_formatters_keep_local_time() -> None:
    configure()

    assert logging.Formatter.converter is time.localtime


@pytest.mark.parametrize(
    ("asked", "lines"),
    [
        pytest.param(None, ["a.yaml is wrong:", "  - topics"], id="by a person"),
        pytest.param(
            "text",
            [
                "a.yaml is wrong:",
                "  - topics",
                'ERROR event=job_ended exit_code=2 text="a.yaml is wrong: - topics"',
            ],
            id="by the script, whose last line is the cause",
        ),
    ],
)
def test_a_command_that_fails_prints_its_cause(
    asked: str | None,
    lines: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if asked:
        monkeypatch.setenv(SCRIPT_FORMAT, asked)

    print_failure(2, "a.yaml is wrong:\n  - topics")

    *first, last = capsys.readouterr().err.splitlines()
    assert [*first, last.partition("Z ")[2] or last] == lines


def test_a_command_that_fails_is_one_json_line_for_the_script(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(SCRIPT_FORMAT, "json")

    print_failure(2, "a.yaml is wrong:\n  - topics")

    line = json.loads(capsys.readouterr().err)
    assert (line["level"], line["event"], line["fields"]) == (
        "ERROR",
        "job_ended",
        {"exit_code": 2},
    )
    assert line["text"] == "a.yaml is wrong: - topics"


def test_the_last_line_is_not_too_long(caplog: pytest.LogCaptureFixture) -> None:
    log_end(3, "x" * 5000, seconds=7)

    assert caplog.records[0].getMessage() == (
        f"event=job_ended exit_code=3 seconds=7 text={'x' * LONGEST_CAUSE}"
    )


def test_a_clean_end_has_no_cause(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    log_end(0, "", seconds=7)

    assert caplog.records[0].getMessage() == "event=job_ended exit_code=0 seconds=7"


def test_what_python_would_print_is_logged(tmp_path: Path) -> None:
    program = """
import threading, warnings
from replication.log import configure, log_uncaught
configure("json")
log_uncaught()
warnings.warn("a warning")
thread = threading.Thread(target=lambda: 1 / 0, name="copier")
thread.start()
thread.join()
raise ValueError("at the end")
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=tmp_path
    )

    assert (done.returncode, done.stdout) == (1, "")
    warning, thread, main = map(json.loads, done.stderr.splitlines())
    assert "a warning" in warning["text"]
    assert (thread["event"], thread["fields"]) == ("internal_error", {"thread": "copier"})
    assert thread["traceback"].endswith("ZeroDivisionError: division by zero")
    assert (main["fields"], main["traceback"].splitlines()[-1]) == (
        {"thread": "main"},
        "ValueError: at the end",
    )


def test_a_log_to_which_lines_are_appended_is_rotated_by_a_copy_or_a_move(tmp_path: Path) -> None:
    file, moved = tmp_path / "mirror.log", tmp_path / "mirror.log.1"
    code = (
        "import sys; from replication.log import Log, configure; configure()\n"
        "for line in sys.stdin: Log('replication').info('generation_started', text=line)"
    )
    with (
        file.open("a") as appended,
        subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stderr=appended, text=True
        ) as process,
    ):

        def say(word: str, where: Path) -> None:
            assert process.stdin
            print(word, file=process.stdin, flush=True)
            wait_until(lambda: f"text={word}\n" in where.read_text(), 60)

        say("first", file)
        shutil.copy(file, moved)
        os.truncate(file, 0)  # as logrotate's copytruncate
        say("second", file)
        truncated = file.read_text()
        file.rename(moved)
        say("third", moved)

    assert len(truncated.splitlines()) == 1
    assert "\0" not in truncated
    assert not file.exists()
