"""``dead-letters``: records that could not be copied."""

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
from replication.control.dead_letters import FlowLetters, ask_to_copy, read_letters

HEADINGS = ("kept at", "topic", "partition", "offset", "state", "place", "reason")


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
    rows = (
        (
            one.at[:19],
            one.letter.id.topic,
            str(one.letter.id.partition),
            str(one.letter.id.offset),
            one.state,
            one.place,
            one.letter.reason,
        )
        for one in shown
    )
    print_table(f"dead letters of {found.flow}", HEADINGS, rows)
