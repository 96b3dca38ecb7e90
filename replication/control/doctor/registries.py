"""Whether the schema registries that flows need answer."""

from collections.abc import Iterator

from replication.config.tree import MirrorConfig
from replication.control.doctor.judgement import Judgement, failed
from replication.control.schemas import ask_registry
from replication.errors import ClusterError


def look_at_registries(config: MirrorConfig) -> Iterator[Judgement]:
    """Yields whether each registry answers that a flow of the file asks."""
    asked = {
        alias: registry
        for flow in config.flows
        if flow.schemas.mode != "none"
        for alias, registry in (
            (flow.flow.source, flow.schemas.source_registry),
            (flow.flow.target, flow.schemas.target_registry),
        )
    }
    for alias, registry in asked.items():
        what = f"schema registry of {alias}"
        try:
            subjects = ask_registry(alias, registry)
        except ClusterError as error:
            yield failed(what, error)
        else:
            yield Judgement(what=what, found=f"answers, {subjects} subjects")
