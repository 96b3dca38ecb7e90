"""What a drain leaves behind an open transaction of the source is said, with whose it is."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from replication.control.status import troubles_of
from replication.flows.replicate.open_transactions import HELD_SECONDS, OpenTransactions
from replication.kafka.java_admin import OpenTransaction, Transactions
from replication.kafka.jvm import shared_jvm
from replication.model import TopicPartition
from replication.state.tables import Tables
from tests.support.clients import properties
from tests.support.flows import RunningFlow, flow_config, flow_context
from tests.support.local import Clusters
from tests.support.stored import stored
from tests.support.topics import await_markers, copied, fill, send
from tests.support.waiting import wait_until

pytestmark = pytest.mark.cluster

BEFORE, OPEN, AFTER = 100, 3, 20


@pytest.fixture
def held(clusters: Clusters, topic_name: str) -> Iterator[Producer]:
    """A transaction in the middle of the topic: records before, in and behind it."""
    fill(clusters[0], topic_name, 1, BEFORE)
    producer = Producer(
        {
            "bootstrap.servers": clusters[0].bootstrap,
            "transactional.id": f"payments-{topic_name}",
            "transaction.timeout.ms": 600_000,
            "log_level": 0,
        }
    )
    producer.init_transactions(60)
    producer.begin_transaction()
    for number in range(OPEN):
        producer.produce(topic_name, f"open {number}".encode(), partition=0)
    producer.flush(60)
    send(clusters[0], topic_name, 1, AFTER)
    yield producer
    producer.abort_transaction(60)


def test_an_open_transaction_is_found_with_its_producer(
    clusters: Clusters, topic_name: str, held: Producer
) -> None:
    assert held is not None
    tp = TopicPartition(topic_name, 0)
    with Transactions(shared_jvm(), "A", properties(clusters[0])) as transactions:
        owner = transactions.open_at([tp])[tp]

    assert isinstance(owner, OpenTransaction)
    assert owner.name == f"payments-{topic_name}"
    assert owner.since_ms is not None
    assert owner.since_ms > 0


@pytest.mark.spark
def test_a_drain_says_what_it_leaves_behind_and_the_next_one_copies_it(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str, held: Producer
) -> None:
    config = flow_config(*clusters, topic_name)
    flow = RunningFlow(spark, tmp_path / "state", config, "drain")
    flow.join()

    assert copied(clusters, topic_name) == BEFORE
    (row,) = stored(flow.tables, "events", "kind = 'transaction-open'")
    end = BEFORE + OPEN + AFTER
    assert (row.topic, row.partition, row.offset_from, row.offset_until) == (
        topic_name,
        0,
        BEFORE,
        end,
    )
    assert f"an open transaction of payments-{topic_name} (producer id " in row.text
    assert f"{end - BEFORE} offsets of {topic_name}-0 on A, {BEFORE} to {end - 1}" in row.text
    (trouble,) = troubles_of([row.asDict()], None)
    assert trouble.kind == "transaction-open"

    held.commit_transaction(60)
    held.begin_transaction()  # which the fixture ends
    await_markers(clusters[0], TopicPartition(topic_name, 0))
    again = RunningFlow(spark, tmp_path / "state", config, "drain")
    again.join()

    assert copied(clusters, topic_name) == end
    assert len(stored(flow.tables, "events", "kind = 'transaction-open'")) == 1


@pytest.mark.spark
def test_a_continuous_flow_says_what_holds_it_back_and_when_that_ends(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str, held: Producer
) -> None:
    tables = Tables(spark, (tmp_path / "state").as_uri())
    held_back = OpenTransactions(flow_context(spark, tables, flow_config(*clusters, topic_name)))
    tp = TopicPartition(topic_name, 0)

    def kinds() -> list[str]:
        return [row.kind for row in stored(tables, "events", order="at")]

    held_back.look([tp], 0)
    held_back.look([tp], HELD_SECONDS)
    held_back.look([tp], HELD_SECONDS + 60)  # it is said once
    begun = stored(tables, "events")
    held.commit_transaction(60)
    held.begin_transaction()

    def has_ended() -> bool:  # a commit returns before its markers are written
        held_back.look([tp], HELD_SECONDS + 120)
        return len(kinds()) > 1

    wait_until(has_ended, 60)
    (row,) = begun
    assert row.offset_from == BEFORE
    assert f"{topic_name}-0 on A waits at offset {BEFORE}" in row.text
    assert f"an open transaction of payments-{topic_name} (producer id " in row.text
    assert kinds() == ["transaction-open", "transaction-ended"]
    assert troubles_of([row.asDict() for row in stored(tables, "events")], None) == ()
