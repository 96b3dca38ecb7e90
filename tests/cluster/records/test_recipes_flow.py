"""All recipes of conf/docs/transforms.md in one flow of two real clusters."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from replication.config.file import load
from replication.demo.workload import ProducedRecord, create_topic
from replication.kafka.cluster import Cluster
from replication.kafka.reader import read_records
from replication.model import TopicPartition
from tests.support.clients import properties
from tests.support.flows import RunningFlow
from tests.support.local import Clusters
from tests.support.mirror_files import FLOW, write_config
from tests.support.recipes import CASES, SALT, Case, Record, joined, recipes
from tests.support.topics import now_ms, send_records

pytestmark = [pytest.mark.cluster, pytest.mark.spark]

OWN = [case for cases in CASES.values() for case in cases if case.flow == str(FLOW)]


@pytest.fixture
def topics(clusters: Clusters) -> Iterator[list[Case]]:
    """The topics that the recipes name, filled; no other test has them."""
    source, target = clusters
    for case in OWN:
        create_topic(source.bootstrap, case.topic, 1)
        send_records(source, case.topic, produced(case))
    yield OWN
    for broker, prefix in ((source, ""), (target, f"{FLOW.source}.")):
        with Cluster("test", properties(broker)) as cluster:
            for case in OWN:
                cluster.delete_topic(f"{prefix}{case.topic}")


def test_all_recipes_in_one_flow(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topics: list[Case]
) -> None:
    settings = joined(recipes()[title][str(FLOW)] for title in CASES)
    names = [case.topic for case in topics]
    flow = {str(FLOW): {"enabled": True, "topics": names, **settings}}
    file = write_config(tmp_path, clusters, "", flow)
    (config,) = load(file, environ=SALT, default_state_dir="/unused").flows

    RunningFlow(spark, tmp_path / "state", config, "drain").join()

    assert {case.topic: copies(clusters, case) for case in topics} == {
        case.topic: list(case.copies) for case in topics
    }


def produced(case: Case) -> Iterator[ProducedRecord]:
    for key, value, headers in case.records:
        yield ProducedRecord(
            partition=0, key=key, value=value, headers=headers, timestamp_ms=now_ms()
        )


def copies(clusters: Clusters, case: Case) -> list[Record]:
    """What is in the remote topic."""
    remote = TopicPartition(f"{FLOW.source}.{case.topic}", 0)
    found = read_records(properties(clusters[1]), remote, 0, 10**9, "read_uncommitted")
    return [(one.key, one.value, one.headers) for one in found]
