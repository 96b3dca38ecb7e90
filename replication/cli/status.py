"""``status``: what each flow does, where, and what of it is not replicated."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final

import click

from replication.cli.flow_lines import first_line, flow_lines
from replication.cli.options import (
    AS_JSON,
    CLUSTERS,
    FILE,
    FLOW,
    chosen_flows,
    echo,
    known_errors,
    print_json,
    print_table,
    say,
)
from replication.config.file import load_config
from replication.config.steering import NO_CHANGES, Steering
from replication.config.tree import MirrorConfig
from replication.control.changed import changed, steerings
from replication.control.flow_answers import FlowAnswer, FlowAnswers
from replication.control.status import OpenTrouble
from replication.errors import ClusterError, ReplicationError, UnhealthyError
from replication.model import Flow

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


def _changes(config: MirrorConfig, flows: Sequence[Flow]) -> dict[Flow, Steering]:
    """Returns what operators have changed of *flows*; nothing where that cannot be read."""
    try:
        return steerings(config.access, flows)
    except ReplicationError as error:
        say(f"what operators have changed is not known: {error}", err=True)
        return {}


def _show(
    answers: Sequence[FlowAnswer], changes: Mapping[Flow, Steering], *, as_json: bool
) -> None:
    if as_json:
        of_flows = {flow: map(changed, found.in_force) for flow, found in changes.items()}
        documents = [
            {**one.document(), "changes": list(of_flows.get(one.flow, ()))} for one in answers
        ]
        print_json({"flows": documents})
        return
    for one in answers:
        for line in flow_lines(one):
            say(line)
        for change in changes.get(one.flow, NO_CHANGES).in_force:
            say(f"  changed: {change.text} (number {change.number}, by {change.origin})")
        if one.told is not None and one.told.troubles:
            print_table(f"{one.flow} does not replicate", HEADINGS, map(_cells, one.told.troubles))


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
        word = one.heard.word
        conditions = word.observed.conditions if word else ()
        what = conditions[0].text if conditions and one.state != "silent" else first_line(one)
        if not conditions and one.state != "silent":
            what = next(
                (f"job {part.word.part}: {part.why}" for part in one.others if not part.is_well),
                what,
            )
        troubles = one.told.troubles if one.told and not word else ()
        more = f"; {len(troubles)} topics or clusters are in trouble" if troubles else ""
        verdict = {"ok": "OK", "degraded": "WARNING", "bad": "CRITICAL"}.get(one.health, "UNKNOWN")
        yield f"{verdict}: {one.flow}: {what}{more}"


def _cells(trouble: OpenTrouble) -> tuple[str, ...]:
    return (
        trouble.topic or "every topic",
        "all" if trouble.partition is None else str(trouble.partition),
        trouble.kind,
        trouble.since.isoformat(timespec="seconds"),
        trouble.reason,
    )
