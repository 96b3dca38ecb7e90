"""A list of topics that selects nothing is reported, and fails a drain."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from replication.demo.topic_log import log_ends
from replication.demo.workload import create_topic
from replication.errors import ClusterError, FlowError
from replication.model import Flow
from replication.upkeep.prepare import look
from tests.support.events import kinds
from tests.support.flows import RunningFlow, flow_config, unique_flow
from tests.support.local import Clusters
from tests.support.said import SaidLines
from tests.support.topics import delete_topic, fill

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

    with pytest.raises(FlowError, match="matches the list topics, so none was copied"):
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
    said: SaidLines,
) -> None:
    fill(clusters[0], topic_name, 1, 3)

    flow = drain(spark, clusters, tmp_path, f"{topic_name}, {topic_name}-misspelt")
    flow.join()

    (line,) = said.of("topics_not_found")
    assert f"'{topic_name}-misspelt' in the list topics" in line.text
    assert kinds(flow.tables) == []


def aliased(flow: Flow, topic_name: str) -> tuple[str, str, str]:
    """Topics whose names begin with the source's alias, the target's, and none."""
    return f"{flow.source}.{topic_name}", f"{flow.target}.{topic_name}", f"{topic_name}-plain"


def is_copied(clusters: Clusters, flow: Flow, topic: str) -> bool:
    """Whether the three records of *topic* are on the target."""
    remote = f"{flow.source}.{topic}"
    return log_ends(clusters[1].bootstrap, [remote]) == {remote: 3}


def test_topics_that_look_like_copies_are_listed_and_named_once(
    spark: SparkSession,
    clusters: Clusters,
    tmp_path: Path,
    topic_name: str,
    said: SaidLines,
) -> None:
    config = flow_config(*clusters, f".*{topic_name}.*", {}, unique_flow())
    own, other, plain = aliased(config.flow, topic_name)
    for topic in (own, other, plain):
        fill(clusters[0], topic, 1, 3)

    flow = RunningFlow(spark, tmp_path, config, "microbatch")
    flow.until(lambda: is_copied(clusters, config.flow, plain))
    fill(clusters[0], f"{topic_name}-later", 1, 3)
    flow.until(lambda: is_copied(clusters, config.flow, f"{topic_name}-later"))
    delete_topic(clusters[0], f"{topic_name}-later")  # ends the generation
    said_before = len(said.of("generation_started"))
    flow.until(lambda: len(said.of("generation_started")) > said_before)
    flow.stop()
    plan = look(config, flow.context.source, flow.context.target)

    texts = [line.text for line in said.of("topics_left_out")]
    assert [(own in text, other in text) for text in texts] == [(True, False), (False, True)]
    assert "begins with the alias" in texts[0]
    assert set(plan.left_out) == {own, other}
    assert plan.rejected == {}
    create_topic(clusters[1].bootstrap, topic_name, 1)  # the target's own: it is a copy of that
    assert set(look(config, flow.context.source, flow.context.target).left_out) == {own}


def test_a_topic_that_another_replicator_has_copied_is_not_left_out_silently(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    config = flow_config(*clusters, f".*{topic_name}.*", {}, unique_flow())
    own, _, plain = aliased(config.flow, topic_name)
    for topic in (own, plain):
        fill(clusters[0], topic, 1, 3)
    create_topic(clusters[1].bootstrap, f"{config.flow.source}.{own}", 1)  # as MM2 4.3 names it

    flow = RunningFlow(spark, tmp_path, config, "drain")
    with pytest.raises(ClusterError, match="so another replicator has copied it"):
        flow.join()

    assert kinds(flow.tables) == ["set-aside"]
    assert is_copied(clusters, config.flow, plain)


def test_items_without_effect_are_named_once(
    spark: SparkSession,
    clusters: Clusters,
    tmp_path: Path,
    topic_name: str,
    said: SaidLines,
) -> None:
    fill(clusters[0], topic_name, 1, 3)
    settings = {
        "topics.exclude": f"{topic_name}-secrets",
        "config.properties.exclude": "retention.msx",
    }

    config = flow_config(*clusters, topic_name, settings, unique_flow())
    RunningFlow(spark, tmp_path, config, "drain").join()

    texts = [line.text for line in said.of("topics_not_found")]
    assert len(texts) == 2
    assert f"'{topic_name}-secrets' in the list topics.exclude" in texts[0]
    assert "'retention.msx' in the list config.properties.exclude" in texts[1]
