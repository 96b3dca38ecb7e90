"""What the registries of a flow hold: what the target lacks, or which ids stand for which."""

from contextlib import closing
from dataclasses import dataclass, field

from replication.config.schema_settings import MODE
from replication.config.tree import FlowConfig, MirrorConfig
from replication.errors import NoAnswerError
from replication.foreign_json import in_json, to_json
from replication.kafka.cluster import Cluster
from replication.kafka.registry import Registry
from replication.model import Flow
from replication.schemas.difference import RegistryDifference
from replication.state.readers import open_reader
from replication.state.schema_rows import SCHEMA_IDS
from replication.topics.selection import remote_topics
from replication.upkeep.schemas import PreservedSchemas


class NoSchemasError(NoAnswerError):
    """A flow leaves the ids of schemas as they are, so that it asks no registry."""

    code = "no-schemas"


@dataclass(frozen=True, slots=True)
class TranslatedId:
    """An id that records of a topic have at the target, in the place of one of the source."""

    topic: str
    part: str
    source: int = field(metadata=in_json("source_id"))
    target: int = field(metadata=in_json("target_id"))
    subject: str


@dataclass(frozen=True, slots=True)
class SchemaLook:
    """One look at both registries.

    Args:
        flow: The flow.
        mode: What becomes of ids.
        topics: The topics whose records carry ids.
        found: What the target lacks; nothing with ``translate``, which registers what comes.
        ids: The ids that are replaced, with ``translate``.
    """

    flow: Flow
    mode: str
    topics: tuple[str, ...]
    found: RegistryDifference
    ids: tuple[TranslatedId, ...] = ()

    def document(self) -> dict[str, object]:
        """Returns what a program reads."""
        return {
            "flow": str(self.flow),
            "mode": self.mode,
            "topics": list(self.topics),
            **to_json(self.found),
            "ids": list(map(to_json, self.ids)),
        }


def look_at_schemas(config: MirrorConfig, flow: FlowConfig) -> SchemaLook:
    """Asks the registries of *flow*, and changes nothing.

    Raises:
        NoSchemasError: The flow leaves ids as they are.
        ClusterError: A registry or the source does not answer.
        StateError: The table of ids cannot be read.
    """
    mode = flow.schemas.mode
    if mode == "none":
        raise NoSchemasError(
            f"{flow.flow} leaves the ids of schemas as they are; set {flow.flow}.{MODE} to "
            "preserve or translate"
        )
    with Cluster(flow.source.alias, flow.source.admin) as cluster:
        remote = flow.with_schema_ids(remote_topics(flow, cluster.topic_names()))
    topics = tuple(sorted(remote))
    source = Registry(flow.flow.source, flow.schemas.source_registry)
    target = Registry(flow.flow.target, flow.schemas.target_registry)
    with closing(source), closing(target):
        if mode == "preserve":
            found = PreservedSchemas(source, target).compare(remote)
            return SchemaLook(flow.flow, mode, topics, found)
        for registry in (source, target):
            registry.subjects()
    with open_reader(config.access) as state:
        rows = {
            (row["topic"], row["part"], row["source_id"]): row
            for row in sorted(state.rows(SCHEMA_IDS, flow.flow), key=lambda row: row["at"])
        }
    ids = (
        TranslatedId(*place, row["target_id"], row["subject"])
        for place, row in sorted(rows.items())
    )
    return SchemaLook(flow.flow, mode, topics, RegistryDifference(), tuple(ids))
