"""A list of topics that selects nothing is reported, and fails a drain."""

import logging
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from replication.errors import FlowError
from tests.support.events import kinds
from tests.support.flows import RunningFlow, flow_config, unique_flow
from tests.support.local import Clusters
from tests.support.topics import fill

pytestmark = pytest.mark.cluster


def drain(
    spark: SparkSession, clusters: Clusters, state: Path, topics: str, **settings: str
) -> RunningFlow:
    config = flow_config(*clusters, topics, settings, unique_flow())
    return RunningFlow(spark, state, config, "drain")


def test_a_drain_that_finds_none_of_its_topics_fails_and_says_so(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    flow = drain(spark, clusters, tmp_path, f"{topic_name}-misspelt")

    with pytest.raises(FlowError, match="matches the list topics, nothing was copied"):
        flow.join()
    assert kinds(flow.tables) == ["no-topics"]


def test_a_drain_may_find_nothing_if_its_file_allows_it(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    allowed = {"replication.drain.empty.allowed": "true"}
    flow = drain(spark, clusters, tmp_path, f"{topic_name}-misspelt", **allowed)

    flow.join()
    assert kinds(flow.tables) == ["no-topics"]


def test_an_item_that_selects_nothing_is_named_and_the_others_are_copied(
    spark: SparkSession,
    clusters: Clusters,
    tmp_path: Path,
    topic_name: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    fill(clusters[0], topic_name, 1, 3)

    with caplog.at_level(logging.WARNING):
        flow = drain(spark, clusters, tmp_path, f"{topic_name}, {topic_name}-misspelt")
        flow.join()

    (text,) = (line for line in caplog.messages if "topics_not_found" in line)
    assert f"'{topic_name}-misspelt' in the list topics" in text
    assert kinds(flow.tables) == []
