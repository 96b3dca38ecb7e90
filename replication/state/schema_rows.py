"""The table ``schema_ids``: which id of the target's schema registry stands for one of the source.

A row is written before any record gets the id, so that no copy has one that nobody knows.
"""

from collections.abc import Mapping
from operator import itemgetter
from typing import Final

from replication.model import Flow
from replication.schemas.values import KnownIds, Part, Version
from replication.state.table_reader import StateReader
from replication.state.tables import Tables, now

SCHEMA_IDS: Final = "schema_ids"


def read_schema_ids(state: StateReader, flow: Flow, known: KnownIds) -> None:
    """Adds what the table says of *flow* to *known*.

    Raises:
        StateError: The table cannot be read.
    """
    for row in sorted(state.rows(SCHEMA_IDS, flow), key=itemgetter("at")):
        known.add(row["topic"], row["part"], row["source_id"], row["target_id"])


def write_schema_ids(
    tables: Tables, flow: Flow, found: Mapping[tuple[str, Part, int], Version]
) -> None:
    """Appends rows: the schema with an id of the source, in a part of a topic's records, is there.

    Raises:
        StateError: The table cannot be written.
    """
    rows = [
        {
            "flow": str(flow),
            "topic": topic,
            "part": part,
            "source_id": source_id,
            "target_id": there.id,
            "type": there.schema.kind,
            "hash": there.schema.digest,
            "subject": there.subject,
            "version": there.number,
            "at": now(),
        }
        for (topic, part, source_id), there in found.items()
    ]
    tables.append(SCHEMA_IDS, rows)
