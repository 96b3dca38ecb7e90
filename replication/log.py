"""Log lines of one shape, as text or as JSON.

A line names an event and its fields; prose goes into ``text``, which comes last:

    2026-01-31T12:00:00.000Z INFO flow=A->B event=generation_started generation=3 mode=realtime
    2026-01-31T12:00:09.500Z WARNING flow=A->B event=restarting pause_seconds=2 text="the query ..."
"""

import json
import logging
import os
import sys
import threading
import time
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import Final, Literal

from replication.log_events import Event

LogFormat = Literal["text", "json"]
LogLevel = Literal["info", "debug"]

OURS: Final = "replication"
"""The logger above those of all our modules."""

SCRIPT_FORMAT: Final = "REPLICATION_LOG_FORMAT"
"""The environment variable by which spark-submit.sh tells what it runs the format of the log."""

ENDED_FILE: Final = "ended"
"""In the run folder: the process has logged its end, so that spark-submit.sh need not."""

LONGEST_CAUSE: Final = 1000

LogValue = str | int | float | bool | None


class Log:
    """The log of one module: ``log = Log(__name__)``.

    Every method takes the event, by its name, its fields, and ``text``. Values that are not plain
    are logged as ``str(value)``. Lines about a flow are written by a log that is bound to it.
    """

    def __init__(self, name: str, flow: object = None) -> None:
        self._logger = logging.getLogger(name)
        self._flow = _plain(flow)

    def bind(self, flow: object) -> "Log":
        """Returns the log whose lines are about *flow*."""
        return Log(self._logger.name, flow)

    def debug(self, event: Event, *, text: object = None, **fields: object) -> None:
        """Logs a detail that only a developer needs."""
        self._log(logging.DEBUG, event, text, fields)

    def info(self, event: Event, *, text: object = None, **fields: object) -> None:
        """Logs a step of normal work."""
        self._log(logging.INFO, event, text, fields)

    def warning(self, event: Event, *, text: object = None, **fields: object) -> None:
        """Logs a problem that resolves without intervention, or that costs nothing yet."""
        self._log(logging.WARNING, event, text, fields)

    def error(self, event: Event, *, text: object = None, **fields: object) -> None:
        """Logs a failure that an operator must act on."""
        self._log(logging.ERROR, event, text, fields)

    def exception(self, event: Event, *, text: object = None, **fields: object) -> None:
        """Logs an internal error with the traceback of the exception being handled."""
        self._log(logging.ERROR, event, text, fields, traceback=True)

    def _log(
        self,
        level: int,
        event: Event,
        text: object,
        fields: dict[str, object],
        *,
        traceback: bool = False,
    ) -> None:
        if self._logger.isEnabledFor(level):
            plain = {name: _plain(value) for name, value in fields.items()}
            line = _Line(event, self._flow, plain, None if text is None else str(text).strip())
            self._logger.log(level, line, exc_info=traceback, stacklevel=3)


def log_end(exit_code: int, cause: str, **fields: object) -> None:
    """Logs the last line of a process: its exit code, and the cause if it failed."""
    log = Log(__name__)
    if exit_code:
        log.error("job_ended", exit_code=exit_code, **fields, text=cause[:LONGEST_CAUSE])
    else:
        log.info("job_ended", exit_code=exit_code, **fields)


def print_failure(exit_code: int, text: str) -> None:
    """Prints on stderr why a command failed; for spark-submit.sh as the last line of a job's log.

    Args:
        exit_code: Of the command.
        text: For an operator, of one line or several.
    """
    asked = os.environ.get(SCRIPT_FORMAT)
    if asked != "json" and (not asked or "\n" in text):
        print(text, file=sys.stderr)  # noqa: T201
    if asked:
        configure("json" if asked == "json" else "text")
        log_end(exit_code, " ".join(text.split()))


def configure(log_format: LogFormat = "text", level: LogLevel = "info") -> None:
    """Writes the lines of this process to stderr: from INFO on, and our own from *level* on."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if log_format == "json" else TextFormatter())
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    logging.getLogger(OURS).setLevel(logging.DEBUG if level == "debug" else logging.NOTSET)


def log_uncaught() -> None:
    """Logs what Python itself would print: warnings, and exceptions that nobody has caught."""
    logging.captureWarnings(capture=True)
    sys.excepthook = partial(_log_uncaught, "main")
    threading.excepthook = _log_uncaught_of_thread


def _log_uncaught(
    thread: str,
    kind: type[BaseException],
    error: BaseException | None,
    traceback: TracebackType | None,
) -> None:
    line = _Line("internal_error", None, {"thread": thread}, "please report this")
    where = (kind, error or kind(), traceback)
    logging.getLogger(__name__).error(line, exc_info=where)


def _log_uncaught_of_thread(uncaught: threading.ExceptHookArgs) -> None:
    name = uncaught.thread.name if uncaught.thread else "unknown"
    if not issubclass(uncaught.exc_type, SystemExit):
        _log_uncaught(name, uncaught.exc_type, uncaught.exc_value, uncaught.exc_traceback)


@dataclass(frozen=True, slots=True)
class _Line:
    """A log record's message. As a string it is the text shape, whichever formatter prints it."""

    event: Event
    flow: LogValue = None
    fields: dict[str, LogValue] = field(default_factory=dict)
    text: str | None = None

    def __str__(self) -> str:
        pairs: dict[str, LogValue] = {} if self.flow is None else {"flow": self.flow}
        pairs |= {"event": self.event, **self.fields}
        if self.text is not None:
            pairs["text"] = _on_one_line(self.text)
        return " ".join(f"{name}={_quoted(value)}" for name, value in pairs.items())


class _Formatter(logging.Formatter):
    """Times are UTC, with milliseconds and a Z."""

    converter = staticmethod(time.gmtime)
    default_time_format = "%Y-%m-%dT%H:%M:%S"
    default_msec_format = "%s.%03dZ"

    @staticmethod
    def line(record: logging.LogRecord) -> _Line:
        if isinstance(record.msg, _Line):
            return record.msg
        return _Line("library_message", None, {"logger": record.name}, record.getMessage())


class TextFormatter(_Formatter):
    """``time LEVEL flow=... event=... name=value``; a traceback follows on lines of its own."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's own name
        """Returns the record as one line."""
        return f"{self.formatTime(record)} {record.levelname} {self.line(record)}"


class JsonFormatter(_Formatter):
    """One JSON object a line: time, level, flow, event, fields, text and, if any, traceback."""

    def format(self, record: logging.LogRecord) -> str:
        """Returns the record as one line; keys without a value are absent."""
        line = self.line(record)
        entry = {
            "time": self.formatTime(record),
            "level": record.levelname,
            "flow": line.flow,
            "event": line.event,
            "fields": line.fields,
            "text": line.text,
            "traceback": self.formatException(record.exc_info) if record.exc_info else None,
        }
        return json.dumps({name: value for name, value in entry.items() if value is not None})


def _plain(value: object) -> LogValue:
    return value if isinstance(value, (str, int, float, type(None))) else str(value)


def _on_one_line(text: str) -> str:
    r"""Returns the lines of *text* as sentences and items: nobody wants to read ``\n``."""
    found = ""
    for line in filter(None, (line.strip(" \t\r").removeprefix("- ") for line in text.split("\n"))):
        found += f"{' ' if found[-1] in '.:;,' else '; '}{line}" if found else line
    return found


def _quoted(value: LogValue) -> str:
    """Returns *value* as one word: quoted and escaped as in JSON where it has to be."""
    word = value if isinstance(value, str) else json.dumps(value)
    if word and word.isprintable() and not set(word) & set(' "=\\'):
        return word
    is_readable = word.replace("\n", "").isprintable()
    return json.dumps(word, ensure_ascii=not is_readable)
