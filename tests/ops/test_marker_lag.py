"""A group that has read all records of a transactional topic has no lag."""

import json
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from replication.demo.workload import create_topic
from replication.model import Committed, TopicPartition
from replication.state.locks import hold_jobs
from tests.support.cli import ok, run
from tests.support.flows import RunningFlow, flow_config
from tests.support.groups import commit
from tests.support.known_load import observing
from tests.support.local import Clusters
from tests.support.mirror_files import write_config

pytestmark = [pytest.mark.cluster, pytest.mark.spark, pytest.mark.timeout(300)]

RECORDS = 3


def test_the_marker_behind_the_last_record_is_no_lag(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    source = clusters[0]
    create_topic(source.bootstrap, topic_name, 1)
    producer = Producer(
        {"bootstrap.servers": source.bootstrap, "transactional.id": f"{topic_name}-writer"}
    )
    producer.init_transactions()

    def send() -> None:
        producer.begin_transaction()
        for _ in range(RECORDS):
            producer.produce(topic_name, b"v", partition=0)
        producer.commit_transaction()

    def lag() -> int:
        answer = json.loads(ok(run("groups", file, "--group", topic_name, "--json")).stdout)
        known = [row["source"]["lag"] for row in answer["groups"]]
        return -1 if known in ([], [None]) else int(*known)  # -1: the job has not looked yet

    send()
    commit(source, topic_name, {TopicPartition(topic_name, 0): Committed(RECORDS)})
    file = write_config(tmp_path, clusters, topic_name)
    config = flow_config(*clusters, topic_name)
    flow = RunningFlow(spark, tmp_path / "state", config, "realtime")
    with observing(flow.context), hold_jobs(flow.tables.root, [config.flow], "mirror"):
        flow.until(lambda: lag() == 0, 120)
        send()
        flow.until(lambda: lag() > RECORDS, 120)  # records and a marker
        commit(source, topic_name, {TopicPartition(topic_name, 0): Committed(2 * RECORDS + 1)})
        flow.until(lambda: lag() == 0, 120)
        flow.stop()
