"""How flows are, in lines for a person."""

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Final

from replication.config.limits import bytes_text, records_text
from replication.control.flow_answers import FlowAnswer
from replication.control.status import End
from replication.figures.clocks import utc
from replication.figures.health import Condition
from replication.figures.observation import ENDED, Observation
from replication.figures.registry import WHOLE_FLOW
from replication.figures.words import Word
from replication.model import runs

MODES: Final[Mapping[str, str]] = {"realtime": "real-time", "microbatch": "micro-batches"}
SOURCES: Final[Mapping[str, str]] = {"shared": "the shared source", "spark": "Spark's source"}


def flow_lines(answer: FlowAnswer) -> Iterator[str]:
    """Yields what is known of a flow: first in one line, then its figures and what is wrong."""
    yield f"{answer.flow}: {first_line(answer)}"
    word = answer.heard.word
    if word is not None:
        if figures := figures_line(word.observed):
            late = word.said_at - word.observed.as_of
            yield f"  {figures}" + (f"   (of {late:.0f} s before)" if late > word.patience else "")
        if limits := limits_line(word.observed):
            yield f"  {limits}"
        if waiting := word.observed.figures.get("schemas_waiting"):
            yield f"  {waiting:.0f} topics wait for ids of schemas"
        yield from (f"  ! {_condition(condition)}" for condition in word.observed.conditions)
        if answer.standbys:
            yield f"  processes of other machines that stand by: {answer.standbys}"
    elif answer.heard.why_not:
        yield f"  its owner was not heard: {answer.heard.why_not}"
    for part in answer.others:
        yield f"  job {part.word.part}: {_said(part.word, part.state, part.why, part.age)}"
    told = answer.told
    if told is not None and told.end and (word is None or word.observed.state not in ENDED):
        yield f"  {_end(told.end)}"
    if told is None and word is None and answer.untold:
        yield f"  its tables cannot be read: {answer.untold}"


def first_line(answer: FlowAnswer) -> str:
    """Returns what the flow does, where, and since when."""
    word = answer.heard.word
    if word is None:
        return _by_tables(answer)
    return _said(word, answer.state, answer.why, answer.age or 0)


def _said(word: Word, state: str, why: str, age: float) -> str:
    if state == "silent":
        return f"silent: {why}; last word: {_running(word.observed)} at {clock(word.said_at)}"
    return f"{_running(word.observed)}, heard {age:.0f} s ago"


def _by_tables(answer: FlowAnswer) -> str:
    process = answer.told.process if answer.told is not None else None
    if process is None:
        return f"{answer.state}: {answer.why}"
    if process.released is not None:
        return f"{answer.state}: {process.host} released it at {_at(process.released)}"
    taken = f"{process.host} took it at {_at(process.since)}"
    match answer.state:
        case "running":
            return f"running: {taken} and has it"
        case "drained" | "stopped" | "failed":
            return f"{answer.state}: {taken}, and has not given it back"
        case "silent":
            gone = "and was killed, paused or cut off since"
            return f"silent: {answer.why}; last word: {taken}, {gone}"
    return f"unknown: {taken}; whether it lives is not known: {answer.why}"


def figures_line(observed: Observation) -> str:
    """Returns the figures of a flow that matter most, as far as they are known."""
    known = observed.figures
    parts = []
    if "lag_records" in known:
        seconds = f", {known['lag_seconds']:.1f} s" if "lag_seconds" in known else ""
        parts.append(f"lag {count(known['lag_records'])} records{seconds}")
    if "records_per_second" in known:
        size = known.get("bytes_per_second")
        rate = "" if size is None else f", {size / 1e6:.1f} MB/s"
        parts.append(f"{count(known['records_per_second'])} records/s{rate}")
    latency = observed.histograms.get("latency_seconds")
    if latency is not None and (p50 := latency.quantile(0.5)) is not None:
        p99 = latency.quantile(0.99) or p50
        parts.append(f"latency p50 {p50 * 1000:.0f}, p99 {p99 * 1000:.0f} ms")
    if "rpo_seconds" in known:
        parts.append(f"RPO {known['rpo_seconds']:.1f} s")
    if not parts and "records_total" in known:
        parts.append(f"{count(known['records_total'])} records since it began")
    return "   ".join(parts)


def limits_line(observed: Observation) -> str:
    """Returns the limits in force and what is used of them; "" without any."""
    found = observed.labelled
    scopes = found.get("limit_waiting", {})
    shown = []
    for scope, is_waiting in scopes.items():
        rates = [
            f"{text(limits[scope])}, using {text(found[f'limit_used_{name}'][scope])}"
            for name, text in _RATES.items()
            if scope in (limits := found.get(f"limit_{name}", {}))
        ]
        topics = "" if scope == WHOLE_FLOW else f"{scope} to "
        shown.append(f"{topics}{' and '.join(rates)}{' (records wait)' if is_waiting else ''}")
    return f"limited to {'; '.join(shown)}" if shown else ""


_RATES: Final[Mapping[str, Callable[[float], str]]] = {
    "bytes_per_second": bytes_text,
    "records_per_second": records_text,
}


def count(number: float) -> str:
    """Returns a number of records, with spaces between thousands."""
    return f"{number:,.0f}".replace(",", " ")


def clock(seconds: float) -> str:
    """Returns a time in UTC."""
    return _at(utc(seconds))


def _at(at: datetime) -> str:
    return at.isoformat(timespec="seconds")


def _running(observed: Observation) -> str:
    parts = [observed.state if not observed.reason else f"{observed.state} ({observed.reason})"]
    if observed.owner is not None and observed.state not in ENDED:
        owner = observed.owner
        parts[0] += f" on {owner.host}, process {owner.pid}, since {clock(owner.since)}"
    if observed.runs is not None and not runs(observed.runs, "records"):
        parts[0] += f" ({observed.runs} only)"
    if observed.ended_at is not None:
        code = "" if observed.exit_code is None else f", exit code {observed.exit_code}"
        parts[0] += f" at {clock(observed.ended_at)}{code}"
    if observed.text:
        parts.append(observed.text)
    if observed.generation is not None and observed.state not in ENDED:
        parts.append(f"generation {observed.generation}")
        if observed.mode is not None:
            parts.append(MODES.get(observed.mode, observed.mode))
        tasks = observed.labelled.get("source_tasks", {})
        parts += [f"{n:.0f} tasks of {SOURCES.get(kind, kind)}" for kind, n in tasks.items()]
    return ", ".join(parts)


def _condition(condition: Condition) -> str:
    topic = f"{condition.topic}: " if condition.topic else ""
    step = f"   next: {condition.next_step}" if condition.next_step else ""
    return f"{topic}{condition.text} (since {clock(condition.since)}){step}"


def _end(end: End) -> str:
    code = "" if end.exit_code is None else f", exit code {end.exit_code}"
    cause = f": {end.cause}" if end.cause else ""
    return f"the last end was at {_at(end.at)}: {end.ending}{code}{cause}"
