"""A target that is paused for longer than the lease: records flow soon after its first answer."""

import logging
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from replication.demo.brokers import Broker
from replication.demo.topic_log import log_ends
from replication.demo.workload import PacedProducer, create_topic
from replication.errors import ClusterError
from replication.kafka import ownership
from replication.model import Mode
from replication.spark.acknowledged import await_silence
from tests.support.flows import RunningFlow, flow_config
from tests.support.local import Clusters
from tests.support.mirror_files import FLOW
from tests.support.process_tree import paused
from tests.support.topics import assert_equal, copied, plain

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.spark,
    pytest.mark.guarantee,
    pytest.mark.timeout(600),
]

log = logging.getLogger(__name__)

RECOVERY_SECONDS = 10


@pytest.fixture
def short_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    """An owner that got no answer for a few seconds has lost its lease."""
    monkeypatch.setattr(ownership, "STEADY", ownership.LeaseTimes(6, 6, 7, 7, 1, 0.25))


@pytest.mark.parametrize("mode", ["realtime", "microbatch"])
@pytest.mark.usefixtures("short_lease")
def test_records_flow_again_soon_after_a_pause_that_was_longer_than_the_lease(
    spark: SparkSession,
    clusters: Clusters,
    own_process: Broker,
    tmp_path: Path,
    topic_name: str,
    mode: Mode,
) -> None:
    both = (clusters[0], own_process)
    create_topic(clusters[0].bootstrap, topic_name, 2)
    impatient = {"B.admin.default.api.timeout.ms": "2000", "emit.offset-syncs.enabled": "false"}
    config = flow_config(*both, topic_name, impatient)
    feeder = PacedProducer(clusters[0].bootstrap, {topic_name: plain(2)}, records_per_second=20)
    feeder.start()
    flow = RunningFlow(spark, tmp_path / "state", config, mode)
    flow.until(lambda: copied(both, topic_name) >= 50)

    assert own_process.pid
    with paused([own_process.pid]):  # meanwhile tasks send records
        flow.until(lambda: not flow.tables.leases)

    def held() -> int:
        try:
            return copied(both, topic_name)
        except ClusterError:  # it does not answer, or for a moment no broker leads the partitions
            return -1

    flow.until(lambda: held() > 0)
    answered = time.monotonic()
    sent = log_ends(clusters[0].bootstrap, [topic_name])[topic_name]
    flow.until(lambda: held() > sent, RECOVERY_SECONDS)
    log.info("%s: records flow after %.1f s", mode, time.monotonic() - answered)
    feeder.finish()
    ends = log_ends(clusters[0].bootstrap, [topic_name])[topic_name]
    flow.until(lambda: copied(both, topic_name) >= ends)
    flow.stop()

    assert await_silence(spark, FLOW, RECOVERY_SECONDS) == ""
    assert_equal(both, topic_name)
