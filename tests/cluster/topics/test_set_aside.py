"""One topic that cannot be replicated never stops the others, on two real clusters."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from replication.cli.main import main
from replication.demo.workload import create_topic
from replication.errors import ClusterError, GuardError
from replication.figures.lag import steady
from replication.flows.observe.flow_observer import FlowObserver
from replication.flows.replicate import choose
from replication.flows.replicate.map_writer import MapWriter
from replication.flows.replicate.resume import settle_positions
from replication.model import TopicPartition
from replication.state.tables import Tables
from replication.upkeep.prepare import prepare_topics
from tests.support.events import kinds, kinds_of_topics
from tests.support.flows import RunningFlow, flow_config, flow_context
from tests.support.local import Clusters
from tests.support.mirror_files import write_config
from tests.support.topics import assert_equal, copied, delete_topic, fill, send

pytestmark = [pytest.mark.cluster, pytest.mark.spark]


def test_a_remote_name_that_is_too_long_is_set_aside(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    source, target = clusters
    long = f"{topic_name}-long".ljust(248, "x")
    fill(source, long, 1, 10)
    fill(source, topic_name, 1, 100)
    flow = RunningFlow(spark, tmp_path, flow_config(source, target, f"{topic_name}.*"), "drain")

    with pytest.raises(ClusterError, match="has 250 characters; Kafka allows 249"):
        flow.join()

    assert_equal(clusters, topic_name)
    assert kinds_of_topics(flow.tables) == [("set-aside", long)]


def test_a_drain_copies_the_others_if_a_topic_was_created_again(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    source, target = clusters
    again, state = f"{topic_name}-again", tmp_path / "state"
    config = flow_config(source, target, f"{topic_name}.*")
    fill(source, topic_name, 2, 100)
    fill(source, again, 2, 100)
    RunningFlow(spark, state, config, "drain").join()

    delete_topic(source, again)
    fill(source, again, 2, 300)
    send(source, topic_name, 2, 50)
    flow = RunningFlow(spark, state, config, "drain")
    with pytest.raises(GuardError, match=rf"(?s){again}-0: .*created again.*{again}-1: "):
        flow.join()

    assert copied(clusters, topic_name) == 150
    assert_equal(clusters, topic_name)
    assert copied(clusters, again) == 100
    assert kinds_of_topics(flow.tables) == [("set-aside", again)]
    file = write_config(tmp_path, clusters, f"{topic_name}.*")
    shown = CliRunner().invoke(main, ["status", str(file), "--json"])
    (trouble,) = json.loads(shown.stdout)["flows"][0]["not_replicated"]
    assert (trouble["topic"], trouble["event"]) == (again, "set-aside")
    assert "was deleted and created again" in trouble["reason"]


def test_a_topic_that_the_target_rejects_joins_once_the_target_accepts_it(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    source, target = clusters
    # Kafka rejects names that differ in dots and underscores only
    rejected, in_the_way, later = f"{topic_name}.c", f"A.{topic_name}_c", f"{topic_name}-later"
    create_topic(target.bootstrap, in_the_way, 1)
    fill(source, rejected, 1, 30)
    fill(source, topic_name, 1, 100)
    config = flow_config(source, target, rf"{topic_name}.*")
    flow = RunningFlow(spark, tmp_path, config, "microbatch")
    flow.until(lambda: copied(clusters, topic_name) >= 100)

    fill(source, later, 1, 20)
    flow.until(lambda: copied(clusters, later) >= 20)
    delete_topic(target, in_the_way)
    flow.until(lambda: copied(clusters, rejected) >= 30)
    flow.stop()

    assert_equal(clusters, topic_name, later, rejected)
    assert kinds_of_topics(flow.tables) == [("set-aside", rejected), ("rejoined", rejected)]


def test_a_topic_that_is_deleted_while_it_is_set_aside_is_gone_within_seconds(
    spark: SparkSession,
    clusters: Clusters,
    tmp_path: Path,
    topic_name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(choose, "FIRST_RETRY_SECONDS", 3600)
    source, target = clusters
    rejected, settings = f"{topic_name}.c", {"refresh.topics.interval.seconds": "3600"}
    create_topic(target.bootstrap, f"A.{topic_name}_c", 1)
    fill(source, rejected, 1, 30)
    fill(source, topic_name, 1, 100)
    config = flow_config(source, target, rf"{topic_name}.*", settings)
    flow = RunningFlow(spark, tmp_path, config, "microbatch")
    flow.until(lambda: copied(clusters, topic_name) >= 100)
    metrics = flow.context.metrics
    was_aside = rejected in metrics.look().aside

    delete_topic(source, rejected)
    flow.until(lambda: rejected in metrics.gone)
    aside, (text, step) = metrics.look().aside, metrics.gone[rejected]
    flow.stop()

    assert was_aside
    assert aside == {}
    assert text.startswith(f"{rejected} was deleted on A: create it again")
    assert step.endswith(rf"--exclude '{topic_name}\.c'")


def test_a_topic_that_was_deleted_while_no_process_ran_is_gone_until_the_next_start(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    source, target = clusters
    names = [f"{topic_name}-{kind}" for kind in ("kept", "deleted", "excluded")]
    config = flow_config(source, target, f"{topic_name}.*")
    for name in names:
        fill(source, name, 1, 10)
    RunningFlow(spark, tmp_path, config, "drain").join()
    kept, deleted, excluded = names
    delete_topic(source, deleted)
    delete_topic(source, excluded)
    settings = {"topics.exclude": excluded}
    config = flow_config(source, target, f"{topic_name}.*", settings)

    gone = []
    for _ in range(2):
        flow = RunningFlow(spark, tmp_path, config, "drain")
        flow.join()
        gone.append(flow.context.metrics.gone.keys())

    assert gone == [{deleted}, set()]
    assert copied(clusters, kept) == 10


def test_a_topic_created_again_is_set_aside_until_its_remote_topic_is_deleted(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    source, target = clusters
    again = f"{topic_name}-again"
    fill(source, topic_name, 1, 100)
    fill(source, again, 1, 100)
    config = flow_config(source, target, f"{topic_name}.*")
    flow = RunningFlow(spark, tmp_path, config, "microbatch")
    flow.until(lambda: copied(clusters, topic_name) + copied(clusters, again) >= 200)

    delete_topic(source, again)
    fill(source, again, 1, 30)
    flow.until(lambda: ("set-aside", again) in kinds_of_topics(flow.tables))
    send(source, topic_name, 1, 100)
    flow.until(lambda: copied(clusters, topic_name) >= 200)
    copied_while_aside = copied(clusters, again)
    own = TopicPartition(topic_name, 0)
    flow.until(lambda: flow.context.metrics.look().copying.positions[own] == 200)
    observer, board = FlowObserver(flow.context, "replicate"), flow.context.metrics.look()
    ends = flow.context.source.log_ends(observer.partitions.known(board))
    observer.partitions.saw(steady(), ends)
    observed = observer.look(steady(), None)
    delete_topic(target, f"A.{again}")
    flow.until(lambda: ("rejoined", again) in kinds_of_topics(flow.tables))
    flow.until(lambda: copied(clusters, again) >= 30)
    flow.stop()

    assert copied_while_aside == 100
    lags = {one.topic: one.figures.get("lag_records") for one in observed.topics}
    known = (None, 30)  # unknown, if what was copied last may be of the new topic
    assert lags[topic_name] == 0
    assert lags[again] == observed.figures.get("rpo_records")
    assert lags[again] in known
    assert observed.figures["lag_unknown_partitions"] == 1
    assert observed.labelled["partitions"]["set-aside"] == 1
    assert_equal(clusters, topic_name, again)
    assert kinds(flow.tables) == ["set-aside", "started-over", "rejoined"]


def test_a_topic_that_is_deleted_before_its_position_is_found_is_left_out(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    source, target = clusters
    doomed = f"{topic_name}-doomed"
    fill(source, topic_name, 1, 100)
    fill(source, doomed, 1, 100)
    tables = Tables(spark, tmp_path.as_uri())
    context = flow_context(spark, tables, flow_config(source, target, f"{topic_name}.*"))
    plan = prepare_topics(context.config, context.source, context.target)

    delete_topic(source, doomed)
    located = settle_positions(
        context, plan, MapWriter(context), 1, copy_lost=lambda *_: pytest.fail("nothing was lost")
    )

    assert {tp.topic for tp in located.positions} == {topic_name}
    assert located.refused == {}
    assert located.gone == {doomed}
    assert kinds_of_topics(tables) == []
