"""The file's lists with what operators have changed, for commands that do without it as well."""

from replication.cli.options import say
from replication.config.tree import MirrorConfig
from replication.control.changed import known_in_force


def with_changes(mirror: MirrorConfig) -> MirrorConfig:
    """Returns *mirror* with the lists in force, or with those of its file, and says so then."""
    known, doubt = known_in_force(mirror)
    if doubt:
        say(doubt, err=True)
    return known
