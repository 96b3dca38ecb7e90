"""``dead-letters``: records that could not be copied, and the request to copy them again."""

from collections.abc import Sequence
from dataclasses import dataclass

import click

from replication.cli.options import (
    AS_JSON,
    CLUSTERS,
    FILE,
    FLOW,
    REASON,
    chosen_flows,
    known_errors,
    print_json,
    print_table,
    say,
)
from replication.config.file import load_config
from replication.config.tree import FlowConfig, MirrorConfig
from replication.errors import NoAnswerError
from replication.model import Flow
from replication.offsets.dead_letter import DeadLetterId
from replication.state.dead_letters import KeptLetter, letters_of, with_attempts
from replication.state.folder import check_begun
from replication.state.readers import open_reader
from replication.state.requests import request_letters

HEADINGS = ("kept at", "topic", "partition", "offset", "state", "place", "reason")


@dataclass(frozen=True, slots=True)
class FlowLetters:
    """The letters of a flow, the oldest first."""

    flow: Flow
    letters: tuple[KeptLetter, ...]

    @property
    def waiting(self) -> tuple[KeptLetter, ...]:
        """Those that were not copied again."""
        return tuple(one for one in self.letters if one.state == "waiting")

    @property
    def possible(self) -> tuple[DeadLetterId, ...]:
        """Those that can be copied again: what nobody could read is not kept."""
        return tuple(one.letter.id for one in self.waiting if one.letter.is_read)

    def documents(self) -> list[dict[str, object]]:
        """Returns what a command prints of each as JSON."""
        return [
            {
                "flow": str(self.flow),
                **one.letter.id._asdict(),
                "state": one.state,
                "at": one.at,
                "place": one.place,
                "stage": one.letter.stage,
                "reason": one.letter.reason,
                "timestamp_ms": one.letter.timestamp_ms,
                "is_read": one.letter.is_read,
                "attempt": dict(zip(("at", "text"), one.attempt or (), strict=False)) or None,
            }
            for one in self.letters
        ]


def read_letters(
    config: MirrorConfig, flows: Sequence[FlowConfig], topic: str | None = None
) -> list[FlowLetters]:
    """Returns the letters of *flows*, of one upstream topic or of all."""
    check_begun(config.state_dir)
    with open_reader(config.access) as state:
        found = [
            (flow.flow, with_attempts(state, flow.flow, letters_of(state, flow.flow)))
            for flow in flows
        ]
    return [
        FlowLetters(flow, tuple(one for one in kept if topic in {None, one.letter.id.topic}))
        for flow, kept in found
    ]


def ask_to_copy(config: MirrorConfig, found: FlowLetters, reason: str) -> int:
    """Asks the owner of a flow to copy its letters again; returns how many can be."""
    if not found.possible:
        raise NoAnswerError(f"flow {found.flow} has no dead letter that waits and can be copied")
    request_letters(config.access, found.flow, found.possible, reason)
    return len(found.possible)


@click.command("dead-letters")
@FILE
@FLOW
@CLUSTERS
@click.option("--topic", help="Only those of this topic, by its name on the source.")
@click.option("--all", "all_states", is_flag=True, help="Show those that were copied again, too.")
@click.option(
    "--copy-again",
    is_flag=True,
    help="Copy those that wait to the ends of their remote partitions: the process that runs the "
    "flow does, within seconds or at its next start.",
)
@REASON
@AS_JSON
@known_errors
def dead_letters(
    *,
    file: str,
    name: str | None,
    clusters: str,
    topic: str | None,
    all_states: bool,
    copy_again: bool,
    reason: str,
    as_json: bool,
) -> None:
    """Show records that could not be copied.

    The file's replication.dead.letters says whether such records are kept, and where.
    """
    config = load_config(file, clusters)
    found = read_letters(config, chosen_flows(config, name), topic)
    asked = 0
    if copy_again:
        asked = sum(ask_to_copy(config, one, reason) for one in found if one.waiting)
    if as_json:
        rows = [row for one in found for row in one.documents()]
        shown = [row for row in rows if all_states or row["state"] == "waiting"]
        print_json({"letters": shown, "asked": asked})
        return
    for one in found:
        _print(one, all_states=all_states)
    if copy_again:
        say(f"asked to copy {asked} again; --all shows what became of them")


def _print(found: FlowLetters, *, all_states: bool) -> None:
    shown = found.letters if all_states else found.waiting
    if not shown:
        say(f"{found.flow}: no dead letter" + ("" if all_states else " waits"))
        return
    is_tried = any(one.attempt for one in shown)
    rows = (
        (
            one.at[:19],
            one.letter.id.topic,
            str(one.letter.id.partition),
            str(one.letter.id.offset),
            one.state,
            one.place,
            one.letter.reason,
            *([f"{one.attempt[0][:19]}: {one.attempt[1]}" if one.attempt else ""] * is_tried),
        )
        for one in shown
    )
    headings = (*HEADINGS, "last attempt to copy it") if is_tried else HEADINGS
    print_table(f"dead letters of {found.flow}", headings, rows)
