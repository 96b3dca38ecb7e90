"""Records which topics a flow replicates, and their ids on both clusters, in a table."""

from collections import Counter

import pyspark

from replication.config.transforms import chain_text, stored_transforms
from replication.model import Chain, Flow
from replication.state.spark_reader import reader_of
from replication.state.tables import Tables, now
from replication.topics.topic_plan import TopicPlan

COLUMNS = ("topic", "remote_topic", "topic_id", "remote_id", "partitions", "transform")


class TopicRows:
    """The flow's rows of ``topics``.

    Attributes:
        remote_ids: The topic id that each remote topic had when it was last recorded.
        transforms: What the newest copies of each topic were transformed by, nothing included.

    Raises:
        StateError: The table cannot be read.
    """

    def __init__(self, tables: Tables, flow: Flow) -> None:
        self._tables = tables
        self._flow = flow
        rows = reader_of(tables).newest("topics", flow, ["remote_topic"], ["at"])
        last = max((row["generation"] for row in rows), default=0)
        self._newest: set[tuple[object, ...]] = {
            tuple(row.get(column) for column in COLUMNS)  # earlier versions had fewer columns
            for row in rows
            if row["generation"] == last
        }
        self.remote_ids: dict[str, str] = {
            row["remote_topic"]: row["remote_id"] for row in rows if row.get("remote_id")
        }
        self.transforms: dict[str, Chain] = stored_transforms(rows)

    def record(self, plan: TopicPlan, generation: int) -> None:
        """Appends a row for each topic of *plan*, unless the last recorded ones are the same.

        Raises:
            StateError: The table cannot be written.
        """
        counts = Counter(tp.topic for tp in plan.partitions)
        newest: set[tuple[object, ...]] = {
            (
                topic,
                remote,
                plan.source_ids[topic],
                plan.remote_ids[remote],
                counts[topic],
                chain_text(chain, pyspark.__version__)
                if (chain := plan.transforms.get(topic))
                else None,
            )
            for topic, remote in plan.topics.items()
        }
        if newest == self._newest:
            return
        common = {"flow": str(self._flow), "generation": generation, "at": now()}
        rows = (
            {**common, **dict(zip(COLUMNS, row, strict=True))} for row in sorted(newest, key=str)
        )
        self._tables.append("topics", rows)
        self._newest = newest
        self.remote_ids.update(plan.remote_ids)
        self.transforms.update((name, plan.transforms.get(name, ())) for name in plan.topics)
