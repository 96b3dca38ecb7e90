"""``schemas``: what the target's schema registry lacks, or which ids stand for which."""

import click

from replication.cli.options import (
    AS_JSON,
    FILE,
    ONE_FLOW,
    chosen_flow,
    known_errors,
    print_json,
    print_table,
    say,
)
from replication.cli.with_changes import with_changes
from replication.config.file import load_config
from replication.control.schemas import SchemaLook, look_at_schemas
from replication.errors import GuardError, NoAnswerError


@click.command()
@FILE
@ONE_FLOW
@click.option("--diff", is_flag=True, help="List each version, level, conflict or id.")
@AS_JSON
@known_errors
def schemas(*, file: str, name: str | None, diff: bool, as_json: bool) -> None:
    """Compare the schema registries of a flow; changes nothing.

    With replication.schemas=preserve, what the target lacks, with translate the ids that are
    replaced. Exits with 5 where ids or versions contradict each other, with 8 where something is
    missing.
    """
    config = with_changes(load_config(file))
    look = look_at_schemas(config, chosen_flow(config, name))
    if as_json:
        print_json(look.document())
    else:
        _print(look, is_long=diff)
    found = look.found
    if found.conflicts:
        raise GuardError(f"{len(found.conflicts)} conflicts keep schemas from being preserved")
    if not found.is_equal:
        raise NoAnswerError(f"the target lacks {len(found.missing)} versions")


def _print(look: SchemaLook, *, is_long: bool) -> None:
    found = look.found
    count = f"{len(look.topics)} topics carry schema ids"
    if look.mode == "translate":
        say(f"{look.flow}: {count}; {len(look.ids)} ids are translated")
    else:
        say(
            f"{look.flow}: {count}; the target lacks {len(found.missing)} versions and "
            f"{len(found.levels)} compatibility levels, and has {len(found.conflicts)} conflicts"
        )
    if not is_long:
        return
    rows: list[tuple[str, str, str, str]] = [
        *(("conflict", conflict.text, "", conflict.kind) for conflict in found.conflicts),
        *(
            ("missing", f"{one.subject} version {one.number}", str(one.id), "")
            for one in found.missing
        ),
        *(("level", subject, level, "") for subject, level in found.levels.items()),
        *(
            ("id", f"{one.topic} {one.part}, {one.subject}", str(one.source), str(one.target))
            for one in look.ids
        ),
    ]
    if rows:
        print_table(str(look.flow), ("what", "where", "source", "target"), rows)
