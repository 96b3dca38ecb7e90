"""A flow that is stopped just as its query fails: nothing is left to try again."""

from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from replication.demo.workload import PacedProducer, create_topic
from replication.flows.replicate.generation import Generation
from replication.model import Mode
from tests.support.flows import RunningFlow, flow_config
from tests.support.local import Clusters
from tests.support.topics import assert_equal, copied, plain

pytestmark = [pytest.mark.cluster, pytest.mark.spark, pytest.mark.timeout(600)]


@pytest.fixture
def stopped_as_it_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """An operator stops a flow in the moment in which its loop sees that the query has failed."""
    failures_of = Generation.failures

    def failures(self: Generation) -> list[StreamingQueryException]:
        found = failures_of(self)
        if found:
            for flow in RunningFlow.started:
                flow.ask_to_stop()
        return found

    monkeypatch.setattr(Generation, "failures", failures)


@pytest.mark.parametrize("mode", ["realtime", "microbatch"])
@pytest.mark.usefixtures("stopped_as_it_fails")
def test_a_stop_is_a_clean_end_although_the_query_has_just_failed(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str, mode: Mode
) -> None:
    create_topic(clusters[0].bootstrap, topic_name, 2)
    feeder = PacedProducer(clusters[0].bootstrap, {topic_name: plain(2)}, records_per_second=200)
    feeder.start()
    config = flow_config(*clusters, topic_name)
    flow = RunningFlow(spark, tmp_path / "state", config, mode)

    def fails() -> bool:
        for query in spark.streams.active:
            spark.sparkContext.cancelJobGroup(str(query.runId))
        return not flow.is_running

    flow.until(lambda: copied(clusters, topic_name) > 0)
    flow.until(fails)
    feeder.finish()
    flow.join()

    after = RunningFlow(spark, tmp_path / "state", config, "drain")
    after.join()
    assert_equal(clusters, topic_name)
