"""The status topic: written by a flow's owner, read by commands, by Connect, and beside MM2."""

import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from replication.config.tree import FlowConfig
from replication.demo.topic_log import log_ends
from replication.demo.workload import create_topic
from replication.errors import ClusterError, NoAnswerError
from replication.figures.observation import Observation, PartitionFigures, TopicFigures, document
from replication.figures.status_store import Holder
from replication.flows.publisher import FlowPublisher
from replication.kafka.cluster import Cluster
from replication.kafka.status_topic import ROUND_SECONDS, SETTINGS, StatusClients, StatusReader
from replication.model import Flow, Part, Topic
from tests.support.flows import flow_config, unique_flow
from tests.support.java_tools import status_store
from tests.support.least_privilege import Strict, grant, line_for
from tests.support.local import Clusters
from tests.support.mirror_maker_2 import mirror_maker_2, mm2_properties
from tests.support.said import SaidLines
from tests.support.topics import delete_topic, fill
from tests.support.waiting import wait_until

pytestmark = pytest.mark.cluster

MM2_SECONDS = 90.0
SOURCE = "MirrorSourceConnector"


@pytest.fixture
def config(clusters: Clusters) -> FlowConfig:
    """A flow of its own."""
    return flow_config(*clusters, topics="none", flow=unique_flow())


@pytest.fixture
def publisher(config: FlowConfig) -> Iterator[FlowPublisher]:
    """Its publisher."""
    made = FlowPublisher(config)
    yield made
    made.close()


def seen(flow: Flow, *topics: str, as_of: float = 1_000.0) -> Observation:
    """A look at a running flow."""
    part = PartitionFigures(0, "lagging", {"lag_records": 7.0})
    return Observation(
        flow,
        as_of,
        "running",
        since=900.0,
        generation=3,
        figures={"lag_records": 7.0},
        topics=tuple(
            TopicFigures(name, f"A.{name}", "lagging", "", {"lag_records": 7.0}, {}, (part,))
            for name in topics
        ),
    )


def holders(epoch: int) -> dict[Part, Holder]:
    """A process that holds the records."""
    return {"records": Holder(epoch, f"member-{epoch}", f"host/A->B/{epoch}")}


def read(config: FlowConfig) -> Observation | None:
    """What a reader that has just come knows."""
    with StatusReader(config) as reader:
        reader.catch_up()
        last = reader.store.last
    return None if last is None else last.observed


def test_what_is_published_is_read_and_connect_reads_it_too(
    clusters: Clusters, config: FlowConfig, publisher: FlowPublisher
) -> None:
    look = seen(config.flow, "orders", "payments")

    publisher.publish(look, holders(2))
    publisher.publish(replace(look, as_of=1.0), holders(1))  # a paused owner that has woken up

    found = read(config)
    assert found is not None
    assert document(found) == document(look)
    answers = status_store(clusters[1].bootstrap, config.status.storage_topic, SOURCE)
    assert answers == {
        "connectors": [SOURCE],
        "state": "RUNNING",
        "worker": "host/A->B/1",
        "generation": 3,
        "trace": None,
        "tasks": 1,
        "topics": ["orders", "payments"],
    }
    with Cluster("B", config.target.admin) as target:
        topic = config.status.storage_topic
        own = target.topic_config([topic])[topic]
        assert {key: own[key].value for key, _ in SETTINGS} == dict(SETTINGS)
        assert target.describe([topic])[topic].partitions == 5


def test_no_look_is_written_behind_the_end_of_its_flow(
    config: FlowConfig, publisher: FlowPublisher
) -> None:
    look = seen(config.flow, "orders")
    publisher.publish(replace(look, state="drained", as_of=1_001.0), holders(1))
    publisher.publish(look, holders(1))  # by a thread that was late
    publisher.publish(replace(look, as_of=1_002.0), holders(1))

    found = read(config)
    assert found is not None
    assert found.state == "drained"


def test_a_topic_that_exists_is_used_as_it_is_and_one_that_was_deleted_is_back_at_once(
    clusters: Clusters, config: FlowConfig, publisher: FlowPublisher, said: SaidLines
) -> None:
    topic = config.status.storage_topic
    create_topic(clusters[1].bootstrap, topic, 3)

    publisher.publish(seen(config.flow, "orders"), holders(1))

    (fault,) = said.of("internal_topic_unfit")
    assert "cleanup.policy=delete" in fault.text
    with Cluster("B", config.target.admin) as target:
        assert target.describe([topic])[topic].partitions == 3
        delete_topic(clusters[1], topic)
        with pytest.raises(NoAnswerError, match="is not on cluster"):
            read(config)
        look = seen(config.flow, "orders", as_of=2_000.0)
        publisher.publish(look, holders(1))
        publisher.publish(look, holders(1))  # the topics' words were in the old one
        found = read(config)
        assert found is not None
        assert document(found) == document(look)
        assert target.describe([topic])[topic].partitions == 5


@pytest.mark.parametrize("idempotent", ["true", "false"])  # the broker refuses it by another code
def test_without_permission_one_line_is_logged_until_it_is_granted(
    strict: Strict, said: SaidLines, idempotent: str
) -> None:
    flow = unique_flow()
    config = _secured_config(strict, flow, idempotent)
    brokers = (strict[0].broker, strict[1].broker)
    publisher = FlowPublisher(config)
    topic = config.status.storage_topic

    publisher.publish(seen(flow), holders(1))
    publisher.publish(seen(flow), holders(1))
    create_topic(brokers[1].bootstrap, topic, 1)
    with pytest.raises(ClusterError, match=rf"kafka-acls .*Describe .*{topic}"):  # by `serve`, too
        read(config)
    grant(brokers[1], line_for("Read", "topic", topic))  # with it the topic is seen
    wait_until(lambda: _is_refused(publisher, flow, said, 2), 30)
    publisher.publish(seen(flow), holders(1))
    grant(brokers[1], line_for("Write", "topic", topic))
    wait_until(lambda: _is_published(publisher, flow, said), 30)

    unseen, unwritten = said.of("status_not_published")
    assert (unseen.level, unseen.flow) == ("WARNING", str(flow))
    assert "--operation Describe" in unseen.text
    assert "--operation Write" in unwritten.text
    assert read(config) is not None
    publisher.close()


def test_flows_to_one_target_share_clients_and_none_needs_the_permissions_of_another(
    strict: Strict, said: SaidLines
) -> None:
    denied, allowed = (_secured_config(strict, unique_flow()) for _ in range(2))
    clients = StatusClients(allowed.target)
    publishers = [FlowPublisher(config, clients) for config in (denied, allowed)]
    create_topic(strict[1].broker.bootstrap, denied.status.storage_topic, 1)
    for operation in ("Create", "Describe", "Write", "Read"):
        grant(strict[1].broker, line_for(operation, "topic", allowed.status.storage_topic))

    for _ in range(2):
        for config, publisher in zip((denied, allowed), publishers, strict=True):
            publisher.publish(seen(config.flow), holders(1))

    assert [line.flow for line in said.of("status_not_published")] == [str(denied.flow)]
    assert read(allowed) is not None
    clients.__exit__()


def test_the_topics_of_all_flows_are_looked_up_together_and_one_that_is_new_at_once(
    clusters: Clusters, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[int]()
    describe = Cluster.describe

    def counted(self: Cluster, names: Iterable[str], *, listed: bool = False) -> dict[str, Topic]:
        names = list(names)
        asked.append(len(names))
        return describe(self, names, listed=listed)

    configs = [flow_config(*clusters, topics="none", flow=unique_flow()) for _ in range(3)]
    with StatusClients(configs[0].target) as clients:
        publishers = [FlowPublisher(config, clients) for config in configs]
        for config, publisher in zip(configs, publishers, strict=True):
            publisher.publish(seen(config.flow), holders(1))
        time.sleep(ROUND_SECONDS)  # what an answer holds for
        monkeypatch.setattr(Cluster, "describe", counted)
        for config, publisher in zip(configs, publishers, strict=True):
            publisher.publish(seen(config.flow), holders(2))
        monkeypatch.undo()

    assert asked == [3]
    assert all(read(config) is not None for config in configs)


def _secured_config(strict: Strict, flow: Flow, idempotent: str = "true") -> FlowConfig:
    login = {
        f"{alias}.{key}": value
        for alias, side in zip((flow.source, flow.target), strict, strict=True)
        for key, value in side.client("SCRAM").items()
    } | {f"{flow.target}.producer.enable.idempotence": idempotent}
    brokers = (strict[0].broker, strict[1].broker)
    return flow_config(*brokers, topics="none", settings=login, flow=flow)


def _is_refused(publisher: FlowPublisher, flow: Flow, said: SaidLines, times: int) -> bool:
    publisher.publish(seen(flow), holders(1))
    return len(said.of("status_not_published")) >= times


def _is_published(publisher: FlowPublisher, flow: Flow, said: SaidLines) -> bool:
    publisher.publish(seen(flow), holders(1))
    return bool(said.of("status_published_again"))


@pytest.mark.soak
def test_mirror_maker_2_runs_beside_our_words_and_ours_come_back(
    clusters: Clusters, tmp_path: Path
) -> None:
    flow, (source, target) = unique_flow(), clusters
    topic, copy = f"{flow.source}-orders", f"{flow.source}.{flow.source}-orders"
    fill(source, topic, 1, 100)
    config = flow_config(source, target, topics=topic, flow=flow)
    publisher = FlowPublisher(config)
    publisher.publish(seen(flow, topic), holders(1))

    folder = tmp_path / "mm2"
    with mirror_maker_2(folder, mm2_properties(clusters, flow.source, flow.target)) as running:
        copies = running.while_running(lambda: log_ends(target.bootstrap, [copy])[copy] == 100)
        wait_until(copies, MM2_SECONDS)
        wait_until(lambda: _worker(clusters, config) != "host/A->B/1", MM2_SECONDS)
        publisher.publish(seen(flow, topic), holders(1))
    publisher.close()

    assert "StatusBackingStore" not in (folder / "log").read_text()
    assert read(config) is not None


def _worker(clusters: Clusters, config: FlowConfig) -> object:
    store = status_store(clusters[1].bootstrap, config.status.storage_topic, SOURCE)
    return store.get("worker")
