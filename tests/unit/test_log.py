"""Log lines have one shape, as text and as JSON."""

import json
import logging
import time
from collections.abc import Iterator

import pytest

from replication.log import JsonFormatter, Log, TextFormatter, configure
from replication.model import Flow, TopicPartition

FLOW = Flow("A", "B")
NAME = "replication.test"

log = Log(NAME)


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
        pytest.param({}, "event=stopped", id="no flow"),
        pytest.param({"flow": FLOW}, "flow=A->B event=stopped", id="the flow comes first"),
        pytest.param(
            {"generation": 3, "mode": "realtime", "flow": FLOW, "ok": True, "end": None},
            "flow=A->B event=stopped generation=3 mode=realtime ok=true end=null",
            id="fields keep their order",
        ),
        pytest.param(
            {"text": "two words", "partition": TopicPartition("orders", 0)},
            'event=stopped partition=orders-0 text="two words"',
            id="text comes last",
        ),
        pytest.param({"text": "word"}, "event=stopped text=word", id="a word needs no quotes"),
        pytest.param(
            {"a": "", "b": 'x"y', "c": "k=v", "d": "back\\slash"},
            r'event=stopped a="" b="x\"y" c="k=v" d="back\\slash"',
            id="what would be misread is quoted",
        ),
        pytest.param(
            {"text": "größte\nzuerst\n"},
            r'event=stopped text="größte\nzuerst"',
            id="lines stay one",
        ),
        pytest.param(
            {"text": "\x1b[31m\u2028\x9b"},
            r'event=stopped text="\u001b[31m\u2028\u009b"',
            id="nothing controls the terminal",
        ),
        pytest.param({"topic": "größe"}, "event=stopped topic=größe", id="letters stay letters"),
        pytest.param(
            {"text": ValueError("bad value")}, 'event=stopped text="bad value"', id="an error"
        ),
    ],
)
def test_the_text_shape(
    fields: dict[str, object], line: str, caplog: pytest.LogCaptureFixture
) -> None:
    log.warning("stopped", **fields)

    assert [record.getMessage() for record in caplog.records] == [line]


@pytest.mark.usefixtures("_tokyo")
def test_text_lines_start_with_the_utc_time_and_the_level(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log.error("stopped", flow=FLOW)
    record = caplog.records[0]
    record.created, record.msecs = 86_400.25, 250.0

    assert TextFormatter().format(record) == (
        "1970-01-02T00:00:00.250Z ERROR flow=A->B event=stopped"
    )


def test_a_json_line_has_a_key_for_each_part(caplog: pytest.LogCaptureFixture) -> None:
    log.error("stopped", flow=FLOW, generation=3, partition=TopicPartition("t", 0), text="a\nb")
    record = caplog.records[0]
    record.created, record.msecs = 86_400.25, 250.0
    line = JsonFormatter().format(record)

    assert "\n" not in line
    assert json.loads(line) == {
        "time": "1970-01-02T00:00:00.250Z",
        "level": "ERROR",
        "flow": "A->B",
        "event": "stopped",
        "fields": {"generation": 3, "partition": "t-0"},
        "text": "a\nb",
    }


def test_an_internal_error_keeps_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    try:
        dict[str, str]()["missing"]
    except KeyError:
        log.exception("flow_failed", flow=FLOW)
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
    log.debug("hidden")
    log.info("started", flow=FLOW)
    written = capsys.readouterr()

    assert written.out == ""
    assert "hidden" not in written.err
    assert len(written.err.splitlines()) == 1
    assert written.err.startswith("{") == (log_format == "json")


def test_other_formatters_keep_local_time() -> None:
    configure()

    assert logging.Formatter.converter is time.localtime
