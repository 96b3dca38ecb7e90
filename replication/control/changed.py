"""What operators have changed of flows, for commands that show or follow it."""

from collections.abc import Sequence
from dataclasses import replace

from replication.config.changes import Change, Overrides
from replication.config.state_access import StateAccess
from replication.config.tree import FlowConfig, MirrorConfig
from replication.errors import SetupError, StateError
from replication.foreign_json import to_json
from replication.log import Log
from replication.model import Flow
from replication.state.change_files import ChangeFiles, open_changes

log = Log(__name__)


def steerings(access: StateAccess, flows: Sequence[Flow]) -> dict[Flow, Overrides]:
    """Returns what operators have changed of each of *flows*.

    Raises:
        StateError: The changes cannot be listed.
        SetupError: Only Hadoop's client reaches the state directory, and Java does not start.
    """
    with open_changes(access, flows) as changes:
        return {flow: read_all(found) for flow, found in changes.items()}


def read_all(changes: ChangeFiles) -> Overrides:
    """Returns what *changes* come to, and logs what counts as absent because nobody can read it."""
    steering = changes.read()
    for path, unread in changes.unread.items():
        log.bind(changes.flow).warning("change_unreadable", path=path, text=unread.text)
    return steering


def in_force(mirror: MirrorConfig) -> MirrorConfig:
    """Returns *mirror* with the lists that operators have changed.

    Raises:
        StateError: The changes cannot be listed.
        SetupError: Only Hadoop's client reaches the state directory, and Java does not start.
    """
    flows = (*mirror.flows, *mirror.other_flows)
    found = steerings(mirror.access, [flow.flow for flow in flows])
    return replace(
        mirror,
        flows=tuple(found[flow.flow].overlaid(flow) for flow in mirror.flows),
        other_flows=tuple(found[flow.flow].overlaid(flow) for flow in mirror.other_flows),
    )


def known_in_force(mirror: MirrorConfig) -> tuple[MirrorConfig, str]:
    """Returns *mirror* as `in_force` does, or as its file has it, and why that is so; else "".

    It is for whoever says something useful by the file alone, and says the reason beside it.
    """
    try:
        return in_force(mirror), ""
    except (StateError, SetupError) as error:
        return mirror, _doubt(mirror, error)


def known_flow(mirror: MirrorConfig, config: FlowConfig) -> tuple[FlowConfig, tuple[str, ...]]:
    """Returns one flow of *mirror* as `known_in_force` does; the reason is a tuple of at most one.

    Args:
        mirror: Where changes are.
        config: The flow, as the file has it.
    """
    try:
        return steerings(mirror.access, [config.flow])[config.flow].overlaid(config), ()
    except (StateError, SetupError) as error:
        return config, (_doubt(mirror, error),)


def _doubt(mirror: MirrorConfig, error: Exception) -> str:
    return (
        f"what operators have changed is not known, so the lists are those of {mirror.file}: "
        f"{error}"
    )


def changed(change: Change) -> dict[str, object]:
    """Returns what a command prints of a *change* as JSON."""
    return {"number": change.number, "id": change.id, **to_json(change)}
