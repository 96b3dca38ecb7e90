"""Configuration files as a user writes them."""

from collections.abc import Mapping
from pathlib import Path

import yaml

from replication.config.keys import REPLICATION_FACTORS
from replication.model import Flow
from tests.support.local import Addressed
from tests.support.rotation import source_of_this_test

FLOW = Flow("A", "B")


def write_config(
    folder: Path,
    clusters: tuple[Addressed, Addressed],
    topics: str,
    more: Mapping[str, object] | None = None,
    flow: Flow = FLOW,
) -> Path:
    """Writes mirror.yaml for one flow and returns its path.

    Args:
        folder: For the file and the state directory.
        clusters: Source and target of the flow.
        topics: The topics of the flow: a name, or a pattern.
        more: Further entries at top level; an entry replaces the one of the same name.
        flow: The aliases of the clusters.
    """
    source, target = clusters
    settings = {
        "clusters": [flow.source, flow.target],
        flow.source: {"bootstrap.servers": source.bootstrap},
        flow.target: {"bootstrap.servers": target.bootstrap},
        str(flow): {"enabled": True, "topics": [topics]},
        "state.dir": (folder / "state").as_uri(),
        **dict.fromkeys(REPLICATION_FACTORS, 1),
        "heartbeats.replication.enabled": False,  # other tests of these clusters emit heartbeats
        "replication.source": source_of_this_test(),
        **(more or {}),
    }
    file = folder / "mirror.yaml"
    file.write_text(yaml.safe_dump(settings))
    return file


def identity_flows(topic: str, other: str) -> dict[str, object]:
    """Two flows with identity naming whose regexes both match *topic*."""
    return {
        "A->B": {"enabled": True, "topics": f"{topic}.*"},
        other: {"enabled": True, "topics": f"{topic}-?.*"},
        "replication.policy.class": "IdentityReplicationPolicy",
    }
