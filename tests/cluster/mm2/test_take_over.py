"""The mirror goes on where the real MirrorMaker 2 stopped, even on a target that is empty."""

from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from replication.control.plan import Histories, plan_flow
from replication.control.starts import StoredMap
from replication.demo.brokers import Broker
from replication.demo.topic_log import log_ends
from replication.demo.workload import create_topic, send_transactions
from replication.kafka.cluster import Cluster, open_clusters
from replication.kafka.reader import read_records
from replication.model import Flow, TopicPartition
from replication.topics.acls import AclHistory
from replication.topics.configs import SyncHistory
from tests.support.events import kinds
from tests.support.flows import RunningFlow, flow_config, unique_flow
from tests.support.internal_topics import write_internal
from tests.support.local import Clusters
from tests.support.mirror_maker_2 import mirror_maker_2, mm2_properties
from tests.support.topics import delete_records, fill, plain, send
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.spark]

NO_MAP = StoredMap({}, {}, lambda _tp: ())
NO_HISTORY = Histories(SyncHistory.of(()), AclHistory.of(()))
START_SECONDS = 90  # for MirrorMaker 2


@dataclass
class Course:
    """A flow whose topics MirrorMaker 2 has copied before it was stopped in order."""

    clusters: Clusters
    flow: Flow = field(default_factory=unique_flow)

    def __post_init__(self) -> None:
        self.topics = [f"{self.flow.source}-dense", f"{self.flow.source}-transactional"]

    def fill(self) -> None:
        """Creates the topics, with 300 dense records, and 60 committed ones out of 90."""
        source, (dense, transactional) = self.clusters[0], self.topics
        fill(source, dense, 1, 300)
        create_topic(source.bootstrap, transactional, 1)
        self.send_transactions()
        write_internal(source, f"mm2-offset-syncs.{self.flow.target}.internal", [])

    def send_transactions(self) -> None:
        """Sends nine transactions of ten records, of which three are aborted."""
        records, bootstrap = islice(plain(1), 90), self.clusters[0].bootstrap
        send_transactions(bootstrap, self.topics[1], records, records_each=10, abort_every=3)

    def remote(self, topic: str) -> str:
        return f"{self.flow.source}.{topic}"

    def run_mirror_maker(self, folder: Path, *, exactly_once: bool) -> None:
        """Runs MirrorMaker 2 until it has copied all that is there."""
        properties = mm2_properties(self.clusters, self.flow.source, self.flow.target)
        properties[f"{self.flow.source}.consumer.isolation.level"] = "read_committed"
        if exactly_once:
            properties[f"{self.flow.target}.exactly.once.source.support"] = "enabled"
        with mirror_maker_2(folder, properties) as running:

            def has_copied() -> bool:
                running.check()
                return [len(self.copied(topic)) for topic in self.topics] == [300, 60]

            wait_until(has_copied, START_SECONDS)

    def copied(self, topic: str) -> list[bytes | None]:
        """The values of the committed records of a remote topic."""
        return values(self.clusters[1], self.remote(topic))

    def empty_target(self) -> None:
        """Deletes what MirrorMaker 2 has copied, as retention does."""
        target = self.clusters[1]
        for topic in self.topics:
            remote = self.remote(topic)
            delete_records(target, remote, log_ends(target.bootstrap, [remote])[remote])


def values(broker: Broker, topic: str) -> list[bytes | None]:
    """The values of the committed records of partition 0, none if there is no such topic."""
    properties, tp = {"bootstrap.servers": broker.bootstrap}, TopicPartition(topic, 0)
    with Cluster("any", properties) as cluster:
        end = cluster.log_ends([tp], "read_committed").get(tp, 0)
    records = read_records(properties, tp, 0, end, "read_committed") if end else []
    return [record.value for record in records]


@pytest.mark.parametrize(
    "exactly_once",
    [
        pytest.param(False, marks=pytest.mark.guarantee, id="at least once"),
        pytest.param(True, id="exactly once", marks=pytest.mark.soak),
    ],
)
def test_a_target_that_retention_has_emptied_gets_what_mirror_maker_2_had_not_copied(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, *, exactly_once: bool
) -> None:
    course = Course(clusters)
    course.fill()
    course.run_mirror_maker(tmp_path / "mm2", exactly_once=exactly_once)
    before = [len(values(clusters[0], topic)) for topic in course.topics]
    course.empty_target()
    send(clusters[0], course.topics[0], 1, 100)
    course.send_transactions()
    settings = {"replication.takeover.topic": f"mm2-offsets.{course.flow.source}.internal"}
    config = flow_config(*clusters, ",".join(course.topics), settings, course.flow)

    with open_clusters(config) as opened:
        planned = plan_flow(config, None, opened, NO_MAP, NO_HISTORY)
    ours = RunningFlow(spark, tmp_path / "state", config, "drain")
    ours.join()

    assert before == [300, 60]
    dense, transactional = planned.starts
    assert (dense.offset, dense.origin) == (300, "taken over")
    assert dense.reason.startswith(
        f"according to mm2-offsets.{course.flow.source}.internal, Mirror"
    )
    assert transactional.offset is not None
    assert transactional.offset >= 60
    for topic, count in zip(course.topics, before, strict=True):
        assert course.copied(topic) == values(clusters[0], topic)[count:], topic
    assert [len(course.copied(topic)) for topic in course.topics] == [100, 60]
    assert kinds(ours.tables) == ["adopted", "adopted"]
