"""What flows do, how far they are behind, and what has happened to them."""

import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final, get_args

import click

from replication.cli.options import (
    AS_JSON,
    CLUSTERS,
    FILE,
    FLOW,
    chosen_flows,
    echo,
    json_line,
    known_errors,
    print_json,
    print_table,
    say,
)
from replication.config.changes import Change
from replication.config.file import load_config
from replication.config.limits import bytes_text, records_text
from replication.config.tree import MirrorConfig
from replication.control.changed import changed, steerings
from replication.control.flow_answers import (
    FlowAnswer,
    FlowAnswers,
    LoggedEvent,
    behind,
    flow_lag,
    is_of_before,
    next_step_of,
    read_events,
)
from replication.control.status import End, OpenTrouble
from replication.errors import ClusterError, NoAnswerError, ReplicationError, UnhealthyError
from replication.figures.lag import duration_text, utc
from replication.figures.observation import (
    ENDED,
    Condition,
    Figures,
    Observation,
    TopicFigures,
)
from replication.figures.registry import WHOLE_FLOW
from replication.figures.status_store import StatusEntry
from replication.model import EventKind, Flow, runs

# How flows are, in lines for a person.

MODES: Final[Mapping[str, str]] = {"realtime": "real-time", "microbatch": "micro-batches"}
SOURCES: Final[Mapping[str, str]] = {"shared": "the shared source", "spark": "Spark's source"}


def flow_lines(answer: FlowAnswer) -> Iterator[str]:
    """Yields what is known of a flow: first in one line, then its figures and what is wrong."""
    yield f"{answer.flow}: {first_line(answer)}{_next(next_step_of(answer.state))}"
    entry = answer.last.entry
    if entry is not None:
        if figures := figures_line(entry.observed):
            yield f"  {figures}" + (f"   ({age})" if (age := figures_age(answer)) else "")
        if limits := limits_line(entry.observed):
            yield f"  {limits}"
        if waiting := entry.observed.figures.get("schemas_waiting"):
            yield f"  {waiting:.0f} topics wait for ids of schemas"
        yield from (f"  ! {_condition(condition)}" for condition in entry.observed.conditions)
        if answer.standbys:
            yield f"  processes of other machines that stand by: {answer.standbys}"
    elif answer.last.why_not:
        yield f"  its owner was not heard: {answer.last.why_not}"
    for part in answer.others:
        yield f"  job {part.entry.part}: {_said(part.entry, part.state, part.why, part.age)}"
    by_tables = answer.by_tables
    if (
        by_tables is not None
        and by_tables.end
        and (entry is None or entry.observed.state not in ENDED)
    ):
        yield f"  {_end(by_tables.end)}"
    if by_tables is None and entry is None and answer.no_tables:
        yield f"  its tables cannot be read: {answer.no_tables}"


def figures_age(answer: FlowAnswer) -> str:
    """Returns how old the figures are of a flow that was heard; "" if they are those of now."""
    entry = answer.last.entry
    if entry is None:
        return ""
    late = entry.said_at - entry.observed.as_of
    if is_of_before(answer.state):
        return f"of {duration_text(late + (answer.age or 0))} before"
    return f"of {duration_text(late)} before" if late > entry.patience else ""


def first_line(answer: FlowAnswer) -> str:
    """Returns what the flow does, where, and since when."""
    entry = answer.last.entry
    if entry is None:
        return _by_tables(answer)
    return _said(entry, answer.state, answer.why, answer.age or 0)


def _said(entry: StatusEntry, state: str, why: str, age: float) -> str:
    if state == "silent":
        return f"silent: {why}; last word: {_running(entry.observed)} at {clock(entry.said_at)}"
    return f"{_running(entry.observed)}, heard {age:.0f} s ago"


def _by_tables(answer: FlowAnswer) -> str:
    process = answer.by_tables.process if answer.by_tables is not None else None
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
            return f"silent: {answer.why}; last word: {taken}"
    return f"unknown: {taken}; whether it lives is not known: {answer.why}"


def figures_line(observed: Observation) -> str:
    """Returns the figures of a flow that matter most, as far as they are known."""
    known = observed.figures
    parts = []
    least = at_least(known)
    if "lag_records" in known:
        seconds = f", {known['lag_seconds']:.1f} s" if "lag_seconds" in known else ""
        parts.append(f"lag {least}{count(known['lag_records'])} records{seconds}")
    elif least:
        parts.append("lag unknown")
    if observed.labelled.get("partitions", {}).get("catching-up"):
        left = known.get("catch_up_seconds")
        parts.append("catching up" + (f", {duration_text(left)} left" if left else ""))
    if "records_per_second" in known:
        size = known.get("bytes_per_second")
        rate = "" if size is None else f", {size / 1e6:.1f} MB/s"
        parts.append(f"{count(known['records_per_second'])} records/s{rate}")
    latency = observed.quantiles.get("latency_seconds", {})
    if "p50" in latency and "p99" in latency:
        p50, p99 = latency["p50"] * 1000, latency["p99"] * 1000
        parts.append(f"latency p50 {p50:.0f}, p99 {p99:.0f} ms")
    if "rpo_seconds" in known:
        parts.append(f"RPO {least}{known['rpo_seconds']:.1f} s")
    if not parts and "records_total" in known:
        parts.append(f"{count(known['records_total'])} records since it began")
    return "   ".join(parts)


def at_least(figures: Figures) -> str:
    """Returns what comes before a lag or an RPO that some partitions are missing from."""
    return "at least " if figures.get("lag_unknown_partitions") else ""


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
    since = clock(condition.since)
    return f"{topic}{condition.text} (since {since}){_next(condition.next_step)}"


def _next(step: str) -> str:
    return f"   next: {step}" if step else ""


def _end(end: End) -> str:
    code = "" if end.exit_code is None else f", exit code {end.exit_code}"
    cause = f": {end.cause}" if end.cause else ""
    return f"the last end was at {_at(end.at)}: {end.ending}{code}{cause}"


HEADINGS: Final = ("topic", "partition", "event", "since", "reason")
CLEAR: Final = "\x1b[2J\x1b[H"
WATCH = click.option(
    "--watch",
    metavar="SECONDS",
    type=click.FloatRange(min=0.5),
    is_flag=False,
    flag_value=2.0,
    help="Show it again every so many seconds (2 without a number), until Ctrl-C.",
)
CHECK = click.option(
    "--check",
    is_flag=True,
    help="Print one line, and end with exit code 0 if all is well, 9 if it is not, 3 if nobody "
    "can tell.",
)


@click.command()
@FILE
@FLOW
@CLUSTERS
@WATCH
@CHECK
@AS_JSON
@known_errors
def status(
    *,
    file: str,
    name: str | None,
    clusters: str,
    watch: float | None,
    check: bool,
    as_json: bool,
) -> None:
    """Show what each flow does and what is not replicated.

    The owner of a flow says it in the status topic on the target. A flow is silent if its owner
    should have said more, or was killed, paused or cut off: then its last word is shown. Where the
    topic cannot be read, the tables answer.
    """
    config = load_config(file, clusters)
    with FlowAnswers(config, chosen_flows(config, name)) as answers:
        found = answers.ask()
        if check:
            sys.exit(_check(found))
        changes = _changes(config, [one.flow for one in found])
        _show(found, changes, as_json=as_json)
        with suppress(KeyboardInterrupt):  # which is how it ends
            while watch is not None:
                found = answers.ask(watch)
                if not as_json:
                    echo(CLEAR, nl=False)
                _show(found, changes, as_json=as_json)


def _changes(config: MirrorConfig, flows: Sequence[Flow]) -> dict[Flow, tuple[Change, ...]]:
    """Returns what operators have changed of *flows*; nothing where that cannot be read."""
    try:
        found = steerings(config.access, flows)
    except ReplicationError as error:
        say(f"what operators have changed is not known: {error}", err=True)
        return {}
    of_file = {each.flow: each for each in config.flows}
    return {flow: found[flow].with_effect(of_file[flow]) for flow in flows}


def _show(
    answers: Sequence[FlowAnswer], changes: Mapping[Flow, Sequence[Change]], *, as_json: bool
) -> None:
    if as_json:
        documents = [
            {**one.document(), "changes": [changed(each) for each in changes.get(one.flow, ())]}
            for one in answers
        ]
        print_json({"flows": documents})
        return
    for one in answers:
        for line in flow_lines(one):
            say(line)
        for change in changes.get(one.flow, ()):
            say(f"  changed: {change.text} (number {change.number}, by {change.origin})")
        if one.by_tables is not None and one.by_tables.troubles:
            rows = _cells(one.by_tables.troubles)
            print_table(f"{one.flow} does not replicate", HEADINGS, rows)


def _check(answers: Sequence[FlowAnswer]) -> int:
    """Prints one line on all flows, and returns the exit code that says the same."""
    bad = [one for one in answers if one.health in ("bad", "degraded")]
    doubtful = [one for one in answers if one.health == "unknown"]
    if not bad and not doubtful:
        shown = answers if len(answers) == 1 else ()
        say(next(_brief(shown), f"OK: {len(answers)} flows are well"))
        return 0
    say("; ".join(_brief([*bad, *doubtful])))
    return UnhealthyError.exit_code if bad else ClusterError.exit_code


def _brief(answers: Sequence[FlowAnswer]) -> Iterator[str]:
    for one in answers:
        entry = one.last.entry
        conditions = entry.observed.conditions if entry else ()
        if one.state == "silent":
            what = first_line(one)
        elif conditions:
            topic = conditions[0].topic
            what = f"{topic}: {conditions[0].text}" if topic else conditions[0].text
        else:
            ill = (f"job {part.entry.part}: {part.why}" for part in one.others if not part.is_well)
            what = next(ill, first_line(one))
        troubles = one.by_tables.troubles if one.by_tables and not entry else ()
        names = {trouble.topic or "every topic" for trouble in troubles}  # one for each partition
        more = f"; topics in trouble: {len(names)}" if names else ""
        verdict = {"ok": "OK", "degraded": "WARNING", "bad": "CRITICAL"}.get(one.health, "UNKNOWN")
        yield f"{verdict}: {one.flow}: {what}{more}"


def _cells(troubles: Iterable[OpenTrouble]) -> Iterator[tuple[str, ...]]:
    """Yields a row for each; what repeats for each partition of a topic is one."""
    rows: dict[tuple[str | None, str, str | None], list[OpenTrouble]] = {}
    for one in troubles:
        rows.setdefault((one.topic, one.kind, one.cluster), []).append(one)
    for (topic, kind, _), some in rows.items():
        first = some[0]
        partition = "all" if first.partition is None else str(first.partition)
        yield (
            topic or "every topic",
            partition if len(some) == 1 else f"{len(some)} partitions",
            kind,
            min(one.since for one in some).isoformat(timespec="seconds"),
            first.reason,
        )


# ``lag``: how far each topic's copy is behind.

LAG_HEADINGS: Final = ("topic", "state", "lag", "lag s", "records/s", "copied until")
PARTITION_HEADINGS: Final = ("partition", "state", "lag", "lag s", "position", "source end")
UNKNOWN: Final = "-"
TOP: Final = 20


@click.command()
@FILE
@FLOW
@CLUSTERS
@click.option("--topic", "topics", multiple=True, help="Only this topic; may be repeated.")
@click.option("--partitions", is_flag=True, help="Show the worst partitions of each topic.")
@click.option(
    "--top",
    default=TOP,
    show_default=True,
    type=click.IntRange(min=1),
    help="How many topics of a flow, the furthest behind first.",
)
@AS_JSON
@known_errors
def lag(
    *,
    file: str,
    name: str | None,
    clusters: str,
    topics: Sequence[str],
    partitions: bool,
    top: int,
    as_json: bool,
) -> None:
    """Show how far each topic's copy is behind.

    In records and in seconds. The owner of a flow measures it and says it in the status topic.
    What is not known is shown as a dash. Of a flow that is silent, this is what was known last.
    """
    config = load_config(file, clusters)
    with FlowAnswers(config, chosen_flows(config, name)) as answers:
        found = answers.ask()
    if not any(one.last.entry for one in found):
        reasons = "; ".join(f"{one.flow}: {one.last.why_not}" for one in found)
        raise NoAnswerError(f"no lag is known: {reasons}")
    lags = [flow_lag(one, topics, top) for one in found]
    if as_json:
        print_json({"flows": [one.document() for one in lags]})
        return
    for one in lags:
        flow, chosen = one.answer.flow, one.topics
        say(f"{flow}: {first_line(one.answer)}")
        if age := figures_age(one.answer):
            say(f"  what follows is {age}")
        if chosen and partitions:
            print_table(f"partitions of {flow}", PARTITION_HEADINGS, _partition_rows(chosen))
        elif chosen:
            print_table(f"topics of {flow}", LAG_HEADINGS, map(_lag_cells, chosen))
        elif one.answer.last.entry is not None:
            echo("  of its topics nothing is known")


def _lag_cells(row: TopicFigures) -> tuple[str, ...]:
    until = row.figures.get("copied_until_timestamp_seconds")
    return (
        row.topic,
        f"{row.state}: {row.reason}" if row.reason else row.state,
        *_lags(row.figures),
        _shown(row.figures, "records_per_second"),
        UNKNOWN if until is None else clock(until),
    )


def _partition_rows(rows: Sequence[TopicFigures]) -> Iterator[tuple[str, ...]]:
    for row in rows:
        for part in sorted(row.partitions, key=lambda part: behind(part.figures), reverse=True):
            ends = (_shown(part.figures, key) for key in ("position", "source_log_end"))
            yield (f"{row.topic}-{part.partition}", part.state, *_lags(part.figures), *ends)


def _lags(figures: Figures) -> tuple[str, str]:
    least, seconds = at_least(figures), figures.get("lag_seconds")
    records = figures.get("lag_records")
    return (
        UNKNOWN if records is None else least + count(records),
        UNKNOWN if seconds is None else f"{least}{seconds:.1f}",
    )


def _shown(figures: Figures, name: str) -> str:
    return count(figures[name]) if name in figures else UNKNOWN


# ``events``: what has happened to flows.

UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
FOLLOW_SECONDS: Final = 2.0


class Age(click.ParamType[timedelta]):
    """A time before now: ``90s``, ``15m``, ``1h``, ``7d``."""

    name = "AGE"

    def convert(
        self, value: str, param: click.Parameter | None, ctx: click.Context | None
    ) -> timedelta:
        """Returns how long ago *value* is."""
        found = re.fullmatch(r"(\d{1,6})([smhd])", value)
        if found is None:
            self.fail(f"{value!r} is no age; write for example 90s, 15m, 1h or 7d", param, ctx)
        return timedelta(seconds=int(found[1]) * UNITS[found[2]])


@click.command()
@FILE
@FLOW
@CLUSTERS
@click.option(
    "--kind",
    "kinds",
    multiple=True,
    type=click.Choice(get_args(EventKind)),
    help="Only events of this kind; may be repeated.",
)
@click.option("--since", type=Age(), help="Only events that are not older: 90s, 15m, 1h, 7d.")
@click.option("--follow", is_flag=True, help="Go on with what happens, until Ctrl-C.")
@AS_JSON
@known_errors
def events(
    *,
    file: str,
    name: str | None,
    clusters: str,
    kinds: Sequence[str],
    since: timedelta | None,
    follow: bool,
    as_json: bool,
) -> None:
    """Show what has happened to flows, the oldest first.

    These are the rows of the table events. Where the tables cannot be read from here, the last
    events that the flows' owners have told. With --follow and --json each line is a JSON document.
    """
    config = load_config(file, clusters)
    flows = chosen_flows(config, name)
    begin = utc(time.time() - since.total_seconds()) if since is not None else None

    def found() -> list[LoggedEvent]:
        rows, note = read_events(config, flows)
        if note and not shown:
            say(f"note: {note}", err=True)
        return [
            row
            for row in rows
            if (not kinds or row.kind in kinds) and (begin is None or row.at >= begin)
        ]

    shown: set[LoggedEvent] = set()
    rows = found()
    if as_json and not follow:
        print_json({"events": [row.document() for row in rows]})
        return
    while True:
        for row in rows:
            if row in shown:
                continue
            if as_json:
                echo(json_line(row.document()))
            else:
                say(_line(row))
        if not follow:
            return
        shown.update(rows)
        try:
            time.sleep(FOLLOW_SECONDS)
            rows = found()
        except KeyboardInterrupt:  # which is how it ends
            return


def _line(row: LoggedEvent) -> str:
    details = dict(row.details)
    topic, partition = details.get("topic"), details.get("partition")
    place = "" if topic is None else f" {topic}" + ("" if partition is None else f"-{partition}")
    group = f" group {details['group']}" if "group" in details else ""
    at = row.at.isoformat(timespec="seconds")
    return f"{at} {row.flow} {row.kind}{place}{group} ({row.reaction}): {row.text}"
