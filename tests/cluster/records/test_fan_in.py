"""Several flows of one file: two sources or two targets, and a process for each target."""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from replication.app.admission import Admission
from replication.config.tree import FlowConfig
from replication.demo.brokers import Broker
from replication.demo.topic_log import log_ends
from replication.flows.checkpoints import Checkpoints
from replication.model import Committed, Flow, TopicPartition
from replication.offsets.map import Exact, OffsetMap
from replication.state.delta import DeltaReader
from replication.state.tables import reader_of
from tests.support.commands import replication, start_mirror
from tests.support.events import kinds
from tests.support.flows import RunningFlow, mirror_config, unique_flow
from tests.support.groups import commit, committed
from tests.support.local import Clusters, Until
from tests.support.mirror_files import write_config
from tests.support.settings import IDENTITY
from tests.support.topics import assert_copies, fill, send

pytestmark = [pytest.mark.cluster, pytest.mark.spark, pytest.mark.timeout(900)]

SECONDS = 240.0


def drain(spark: SparkSession, folder: Path, configs: Iterable[FlowConfig]) -> list[RunningFlow]:
    """The flows of *configs*, drained side by side."""
    admission = Admission(spark.version, lambda: 100)
    running = [
        RunningFlow(spark, folder, config, "drain", admission=admission) for config in configs
    ]
    for one in running:
        one.join()
    return running


@pytest.mark.guarantee
def test_two_sources_fill_two_topics_of_one_target(
    spark: SparkSession, clusters: Clusters, own_broker: Broker, tmp_path: Path, topic_name: str
) -> None:
    source, target = clusters
    flow = unique_flow()
    other = Flow(f"{flow.source}x", flow.target)  # one alias begins with the other
    group = f"g-{topic_name}"
    settings = {
        "clusters": f"{flow.source}, {other.source}, {flow.target}",
        f"{other.source}.bootstrap.servers": own_broker.bootstrap,
        f"{other}.enabled": "true",
        f"{other}.topics": topic_name,
        "groups": group,
        "sync.group.offsets.enabled": "true",
    }
    configs = mirror_config(source, target, topic_name, settings, flow).flows
    fill(source, topic_name, 2, 300)
    fill(own_broker, topic_name, 2, 200)
    tp = TopicPartition(topic_name, 0)
    commit(source, group, {tp: Committed(42)})
    commit(own_broker, group, {tp: Committed(77)})

    drain(spark, tmp_path, configs)
    for broker in (source, own_broker):
        send(broker, topic_name, 2, 20)
    flows = drain(spark, tmp_path, configs)
    for one in flows:
        Checkpoints(one.context).round()

    assert [config.flow for config in configs] == [flow, other]
    remote = {config.flow: f"{config.flow.source}.{topic_name}" for config in configs}
    assert_copies((source, target), {topic_name: remote[flow]})
    assert_copies((own_broker, target), {topic_name: remote[other]})
    maps = {flow: OffsetMap(reader_of(flows[0].tables).offsets(flow).runs(tp)) for flow in remote}
    assert (maps[flow].translate(160), maps[other].translate(110)) == (Exact(160), Exact(110))
    assert committed(target, group) == {
        TopicPartition(remote[flow], 0): Committed(42),
        TopicPartition(remote[other], 0): Committed(77),
    }
    assert kinds(flows[0].tables) == []


def test_one_source_fills_two_targets_without_a_prefix(
    spark: SparkSession, clusters: Clusters, own_broker: Broker, tmp_path: Path, topic_name: str
) -> None:
    source, target = clusters
    flow = unique_flow()
    other = Flow(flow.source, f"{flow.target}x")
    settings = {
        "clusters": f"{flow.source}, {flow.target}, {other.target}",
        f"{other.target}.bootstrap.servers": own_broker.bootstrap,
        f"{other}.enabled": "true",
        f"{other}.topics": topic_name,
        "replication.policy.class": IDENTITY,
    }
    configs = mirror_config(source, target, topic_name, settings, flow).flows
    fill(source, topic_name, 1, 100)

    drain(spark, tmp_path, configs)
    send(source, topic_name, 1, 10)
    flows = drain(spark, tmp_path, configs)

    tp = TopicPartition(topic_name, 0)
    assert [config.flow for config in configs] == [flow, other]
    for broker in (target, own_broker):
        assert log_ends(broker.bootstrap, [topic_name]) == {topic_name: 110}
    for config in configs:
        runs = reader_of(flows[0].tables).offsets(config.flow).runs(tp)
        assert OffsetMap(runs).translate(105) == Exact(105)
    assert kinds(flows[0].tables) == []


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as held:
        yield held


@pytest.mark.soak
@pytest.mark.job
def test_two_processes_for_different_targets_share_a_state_directory(
    clusters: Clusters, tmp_path: Path, topic_name: str, until: Until, stack: ExitStack
) -> None:
    over = unique_flow()
    back = Flow(over.target, over.source)
    there, here = f"{topic_name}-there", f"{topic_name}-here"
    ends = ((clusters[1], f"{over.source}.{there}"), (clusters[0], f"{back.source}.{here}"))
    fill(clusters[0], there, 1, 1000)
    fill(clusters[1], here, 1, 1000)
    more = {str(back): {"enabled": True, "topics": [here]}, "groups": [topic_name]}
    config = write_config(tmp_path, clusters, there, more, over)

    def copies() -> list[int]:
        return [log_ends(broker.bootstrap, [topic]).get(topic, 0) for broker, topic in ends]

    jobs = []
    for flow in (over, back):
        arguments = ("--clusters", flow.target, "--mode", "microbatch")
        job = start_mirror(config, tmp_path / f"{flow.target}.log", *arguments)
        stack.callback(job.discard)
        jobs.append(job)

    def are_copied() -> bool:
        for job in jobs:
            job.check()
        return copies() == [1000, 1000]

    def goes_on() -> bool:
        jobs[1].check()
        return copies()[1] == 1100

    until(are_copied, SECONDS)
    stopped = replication("stop", config, "--clusters", over.target)
    send(clusters[0], there, 1, 100)
    send(clusters[1], here, 1, 100)
    until(goes_on, SECONDS)
    jobs[1].stop()

    assert (stopped.returncode, stopped.stdout) == (0, f"{over} stopped\n"), stopped.stderr
    assert jobs[0].exit_code == 0
    assert copies() == [1000, 1100]
    state = DeltaReader((tmp_path / "state").as_uri())
    for flow in (over, back):
        newest = state.newest("leases", flow, ["flow"], ["epoch", "renewed"])
        assert [(row["epoch"], row["released"]) for row in newest] == [(1, True)]
        told = [row["kind"] for row in state.rows("events", flow)]
        assert told == ["requested"] * (flow == over)  # the command; a signal tells nothing
        progress = state.offsets(flow).progress().anchors
        assert [anchor.position.upstream for anchor in progress.values()] == [
            1000 if flow == over else 1100
        ]
    assert_copies(clusters[::-1], {here: ends[1][1]})
