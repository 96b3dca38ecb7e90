"""Records that wait in executors until the target's id of their schema is known, and the answer."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from pyspark.sql import SparkSession

from replication.java import java_class
from replication.model import Flow, TopicPartition
from replication.schemas.values import Part

UNFRAMED: Final = "-"
REFUSED: Final = "!"
ALONE: Final = "alone"

SchemaName = int | str
"""How a record names its schema: by the id of a registry, or by the GUID of all of them."""

Answers = Mapping[int, int] | Mapping[str, str] | Mapping[SchemaName | None, None]
"""Ids by those of the source; None for one that a record will not get, or for one it lacks.

A GUID is answered with itself once a record may go with it.
"""


class WantedSchema(NamedTuple):
    """A record that waits.

    Args:
        remote: Its remote partition.
        offset: Of its original.
        part: Where it carries the id.
        id: On the source, or a GUID; None if it has none, and must have one.
        is_alone: Whether only its partition waits, and neither its task nor the batch.
    """

    remote: TopicPartition
    offset: int
    part: Part
    id: SchemaName | None
    is_alone: bool = False


def wanted_schemas(spark: SparkSession, flow: Flow) -> list[WantedSchema]:
    """Returns the records of *flow* that wait."""
    found = []
    for line in str(_driver(spark).of(str(flow))).splitlines():
        topic, partition, offset, part, number, how = line.split("\t")
        remote = TopicPartition(topic, int(partition))
        own = None if number == UNFRAMED else number if "-" in number else int(number)
        one = WantedSchema(remote, int(offset), part, own, how == ALONE)  # type: ignore[arg-type]
        found.append(one)
    return found


def tell_schemas(spark: SparkSession, flow: Flow, place: tuple[str, Part], ids: Answers) -> None:
    """Lets executors know ids of a remote topic's keys or values.

    Args:
        spark: Their session.
        flow: Whose records wait.
        place: The remote topic, and the part of its records.
        ids: What to tell; a record that gets none fails.
    """
    if ids:
        pairs = ",".join(
            f"{UNFRAMED if source is None else source}={REFUSED if target is None else target}"
            for source, target in ids.items()
        )
        _driver(spark).tell(str(flow), *place, pairs)


def _driver(spark: SparkSession) -> Any:  # noqa: ANN401 - py4j's own
    jvm: Any = spark._jvm  # noqa: SLF001 - the way to Java classes
    return java_class(jvm, "replication.plugin.WantedSchemas")
