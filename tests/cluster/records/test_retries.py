"""What fails once is tried again: Spark's own jobs, and writes to Delta."""

import logging
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from replication.demo.brokers import Broker
from replication.model import TopicPartition
from tests.support.flows import RunningFlow, flow_config
from tests.support.local import Clusters
from tests.support.mirror_files import FLOW
from tests.support.stored import record_events, stored, stored_runs
from tests.support.topics import assert_equal, copied, fill, send

pytestmark = [pytest.mark.cluster, pytest.mark.spark, pytest.mark.timeout(900)]


class KillsAtCount(logging.Handler):
    """Kills a broker once, when a flow says that it counts records, before it has read one."""

    def __init__(self, broker: Broker) -> None:
        super().__init__()
        self._broker = broker
        self._has_killed = False

    def emit(self, record: logging.LogRecord) -> None:
        """Kills it in the flow's thread, which goes on afterwards."""
        if "event=counting_unrecorded" in record.getMessage() and not self._has_killed:
            self._has_killed = True
            self._broker.kill()


def test_a_source_that_dies_while_records_are_counted_is_waited_for(
    spark: SparkSession,
    clusters: Clusters,
    own_broker: Broker,
    tmp_path: Path,
    topic_name: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    both = (own_broker, clusters[1])
    settings = {
        "A.admin.default.api.timeout.ms": "2000",
        "A.consumer.default.api.timeout.ms": "5000",
        "A.consumer.request.timeout.ms": "4000",
        "emit.offset-syncs.enabled": "false",
    }
    config = flow_config(*both, topic_name, settings)
    fill(own_broker, topic_name, 1, 100)
    RunningFlow(spark, tmp_path / "state", config, "drain").join()
    send(own_broker, topic_name, 1, 50)
    # the records of another state directory are not in this one's offset map
    RunningFlow(spark, tmp_path / "other", config, "drain").join()

    ours = logging.getLogger("replication")
    monkeypatch.setattr(ours, "handlers", [*ours.handlers, KillsAtCount(own_broker)])
    with caplog.at_level(logging.INFO, ours.name):
        flow = RunningFlow(spark, tmp_path / "state", config, "microbatch")
        flow.until(lambda: "event=unreachable" in caplog.text)
    own_broker.start()
    send(own_broker, topic_name, 1, 30)
    flow.until(lambda: copied(both, topic_name) >= 180)
    flow.stop()

    assert copied(both, topic_name) == 180
    assert_equal(both, topic_name)
    (run,) = stored_runs(flow.tables, FLOW, TopicPartition(topic_name, 0))
    assert run.is_dense
    assert run.count == 180


def test_runs_that_cannot_be_written_are_written_later(
    spark: SparkSession,
    clusters: Clusters,
    tmp_path: Path,
    topic_name: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    source, target = clusters
    fill(source, topic_name, 1, 100)
    config = flow_config(source, target, topic_name)
    flow = RunningFlow(spark, tmp_path, config, "microbatch")
    flow.until(lambda: copied(clusters, topic_name) >= 100)

    table, away = tmp_path / "offset_runs", tmp_path / "away"
    table.rename(away)
    table.touch()  # a file in the place of the table's folder: every write fails
    with caplog.at_level(logging.WARNING):
        send(source, topic_name, 1, 50)
        flow.until(lambda: "event=map_write_failed" in caplog.text)
    table.unlink()
    away.rename(table)
    send(source, topic_name, 1, 50)
    flow.until(lambda: copied(clusters, topic_name) >= 200)
    flow.stop()

    assert_equal(clusters, topic_name)
    (run,) = stored_runs(flow.tables, FLOW, TopicPartition(topic_name, 0))
    assert run.is_dense
    assert run.count == 200
    assert record_events(flow.tables) == []


def test_a_flow_whose_map_cannot_be_written_at_its_start_tries_again(
    spark: SparkSession,
    clusters: Clusters,
    tmp_path: Path,
    topic_name: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    source, target = clusters
    fill(source, topic_name, 1, 100)
    in_the_way = tmp_path / "_locks" / "offset_runs.commit"  # a folder cannot be locked
    in_the_way.mkdir(parents=True)
    with caplog.at_level(logging.WARNING):
        flow = RunningFlow(spark, tmp_path, flow_config(source, target, topic_name), "drain")
        flow.until(lambda: "event=restarting" in caplog.text)
    in_the_way.rmdir()
    flow.join()

    assert_equal(clusters, topic_name)
    assert [row.kind for row in stored(flow.tables, "events")] == ["restarted"]
