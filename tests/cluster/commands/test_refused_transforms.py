"""Transforms that a start refuses, by ``plan`` and by the job: before anything is written."""

from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from replication.config.tree import FlowConfig
from replication.demo.brokers import Broker
from replication.demo.workload import create_topic
from replication.flows.context import refused_transforms
from replication.positions.originals import transform_refusals
from replication.spark.session import LateSession
from replication.state.tables import Tables
from replication.upkeep.prepare import look
from tests.support.cli import run
from tests.support.commands import spark_submit
from tests.support.flows import RunningFlow, flow_config, flow_context
from tests.support.local import Clusters
from tests.support.mirror_files import write_config
from tests.support.stored import stored
from tests.support.topics import fill, send

pytestmark = [pytest.mark.cluster, pytest.mark.spark]

START = "A->B.replication.transforms"
SALTED = "aes_encrypt(value, 'abcdefghijklmnop', 'GCM', 'DEFAULT', binary(lower('')))"
"""Its salt is random, and nothing about the expression says so."""


def exists(broker: Broker, topic: str) -> bool:
    """Whether *topic* is there."""
    return topic in AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics().topics


def refusals(
    spark: SparkSession, clusters: Clusters, folder: Path, topic: str, values: dict[str, str]
) -> list[str]:
    """Why a start refuses one transform with *values*."""
    named = {f"{START}.one.{end}": text for end, text in values.items()}
    settings = {START: "one", f"{START}.one.topics": ".*", **named}
    config = flow_config(*clusters, topic, settings)
    context = flow_context(spark, Tables(spark, folder.as_uri()), config)
    return transform_refusals(context, look(config, context.source, context.target))


def test_a_record_that_becomes_two_different_ones_is_found(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    fill(clusters[0], topic_name, 2, 50)
    (problem,) = refusals(spark, clusters, tmp_path, topic_name, {"value": SALTED})
    assert problem.startswith(f"replication.transforms one: a record of {topic_name} became two")
    steady = {"value": "binary(sha2(value, 256))", "nullable": "true"}
    assert refusals(spark, clusters, tmp_path, topic_name, steady) == []


@pytest.mark.parametrize("is_there", [True, False])
def test_keys_of_a_compacted_topic_change_only_where_somebody_says_that_they_stay_different(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str, *, is_there: bool
) -> None:
    compacted = {"cleanup.policy": "compact"}
    create_topic(clusters[0].bootstrap, topic_name, 1, {} if is_there else compacted)
    if is_there:
        create_topic(clusters[1].bootstrap, f"A.{topic_name}", 1, compacted)
    key = {"key": "binary(sha2(key, 256))"}
    (problem,) = refusals(spark, clusters, tmp_path, topic_name, key)
    assert f"A.{topic_name} is compacted" in problem
    assert "key.injective: true" in problem
    injective = {**key, "key.injective": "true"}
    assert refusals(spark, clusters, tmp_path, topic_name, injective) == []


def test_a_drain_tries_known_transforms_again_where_records_wait_only(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    """Its Spark starts when somebody asks for it; a loop alone refuses no transform."""
    settings = {START: "one", f"{START}.one.topics": ".*", f"{START}.one.value": SALTED}
    config = flow_config(*clusters, topic_name, settings)
    other = flow_config(*clusters, topic_name, {**settings, f"{START}.one.filter": "true"})

    def refused(wanted: FlowConfig) -> tuple[list[str], bool]:
        late = LateSession(lambda: spark)
        context = flow_context(spark, Tables(spark, tmp_path.as_uri()), wanted)
        problems = refused_transforms(replace(context, session=late))
        return problems, late.started is not None

    fill(clusters[0], topic_name, 2, 50)
    (problem,), has_started = refused(config)
    assert (has_started, "became two" in problem) == (True, True), "nothing is known yet"
    RunningFlow(spark, tmp_path, config, "drain").join()
    assert refused(config) == ([], False)
    (problem,), has_started = refused(other)
    assert (has_started, "became two" in problem) == (True, True), "it is another transform"
    send(clusters[0], topic_name, 2, 1)
    (problem,), has_started = refused(config)
    assert (has_started, "became two" in problem) == (True, True), "a record waits"
    RunningFlow(spark, tmp_path, config, "drain").join()
    assert refused(config) == ([], False)


@pytest.mark.job
def test_plan_and_the_start_say_all_problems_and_copy_nothing(
    clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    fill(clusters[0], topic_name, 1, 10)
    more = {
        START: ["one", "two"],
        f"{START}.one.topics": topic_name,
        f"{START}.one.filter": "value",
        f"{START}.two.topics": topic_name,
        f"{START}.two.value": "no_function(value)",
    }
    config = write_config(tmp_path, clusters, topic_name, more)

    planned = run("plan", config)
    started = spark_submit(config, "--mode", "drain")

    assert planned.exit_code == started.returncode == 2
    for said in (planned.output, started.stdout):
        assert "A->B.replication.transforms.one.filter: is of type binary, and not boolean" in said
        assert "A->B.replication.transforms.two.value: Spark does not take it: [UNRESOLVED" in said
    assert stored(tmp_path / "state", "topics") == []
    assert not exists(clusters[1], f"A.{topic_name}")
