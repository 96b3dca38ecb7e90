"""What a flow does where a log has lost its end, or a topic was created again.

The causes are source-truncated, target-truncated and source-recreated.
"""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from replication.config.tree import FlowConfig
from replication.demo.brokers import Broker
from replication.demo.topic_log import log_ends
from replication.demo.workload import create_topic
from replication.offsets.map import Exact
from tests.support.cut_log import cut_log, log_bytes
from tests.support.events import kinds
from tests.support.flows import flow_config, unique_flow
from tests.support.local import Clusters
from tests.support.mirror_maker_2 import mirror_maker_2, mm2_properties
from tests.support.numbered import drain, jump, numbered, numbers, translations
from tests.support.settings import IDENTITY
from tests.support.topics import delete_topic, send_records
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.spark]

MM2_SECONDS = 60


def lose_copies(
    spark: SparkSession,
    state: Path,
    config: FlowConfig,
    original: tuple[Broker, str],
    copy: tuple[Broker, str],
) -> None:
    """Copies the records 0 to 99 from topic to topic, and then loses the last 20 copies."""
    (source, topic), (target, remote) = original, copy
    create_topic(source.bootstrap, topic, 1)
    send_records(source, topic, numbered(0, 80))
    drain(spark, state, config)
    size = log_bytes(target, remote)
    send_records(source, topic, numbered(80, 100))
    drain(spark, state, config)
    cut_log(target, remote, size)


@pytest.mark.parametrize("regrown", [pytest.param(0, marks=pytest.mark.soak), 8])
def test_a_source_that_was_cut_goes_on_at_the_cut(
    spark: SparkSession,
    clusters: Clusters,
    own_process: Broker,
    tmp_path: Path,
    topic_name: str,
    regrown: int,
) -> None:
    _, target = clusters
    skip = {"replication.guard.source-truncated": "skip"}
    config = flow_config(own_process, target, topic_name, skip)
    create_topic(own_process.bootstrap, topic_name, 1)
    send_records(own_process, topic_name, numbered(0, 80))
    size = log_bytes(own_process, topic_name)
    send_records(own_process, topic_name, numbered(80, 100))
    drain(spark, tmp_path / "state", config)
    cut_log(own_process, topic_name, size)
    send_records(own_process, topic_name, numbered(200, 200 + regrown))

    flow = drain(spark, tmp_path / "state", config)
    send_records(own_process, topic_name, numbered(300, 330))
    drain(spark, tmp_path / "state", config)

    new = [*range(200, 200 + regrown), *range(300, 330)]
    assert numbers(target, f"A.{topic_name}") == [*range(100), *new]
    event = jump(flow)
    assert (event.reaction, event.offset_from, event.offset_until) == ("skip", 80, 80)
    assert "up to offset 80 it has the records that were copied" in event.text
    assert "of what the source has, nothing is left out or repeated" in event.text
    assert translations(flow, topic_name, 80, 110) == [Exact(100), Exact(130)]


@pytest.mark.parametrize(
    ("policy", "goes_on_at"),
    [
        pytest.param("skip", 100, marks=pytest.mark.guarantee),
        pytest.param("restart", 80, marks=pytest.mark.soak),
    ],
)
def test_a_target_that_was_cut_is_refilled_or_goes_on(
    spark: SparkSession,
    clusters: Clusters,
    own_process: Broker,
    tmp_path: Path,
    topic_name: str,
    policy: str,
    goes_on_at: int,
) -> None:
    source, _ = clusters
    remote, state = f"A.{topic_name}", tmp_path / "state"
    config = flow_config(
        source, own_process, topic_name, {"replication.guard.target-truncated": policy}
    )
    lose_copies(spark, state, config, (source, topic_name), (own_process, remote))
    send_records(source, topic_name, numbered(100, 110))

    flow = drain(spark, state, config)

    assert numbers(own_process, remote) == [*range(80), *range(goes_on_at, 110)]
    event = jump(flow)
    assert (event.reaction, event.offset_from, event.offset_until) == (policy, 80, goes_on_at)
    shift = goes_on_at - 80
    assert translations(flow, topic_name, 79, 80, 100, 110) == [
        Exact(79), Exact(80), Exact(100 - shift), Exact(110 - shift)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("policy", "goes_on_at"), [("skip", 100), pytest.param("restart", 80, marks=pytest.mark.soak)]
)
def test_a_shared_target_that_was_cut_and_has_grown_again_is_noticed(
    spark: SparkSession,
    clusters: Clusters,
    own_process: Broker,
    tmp_path: Path,
    topic_name: str,
    policy: str,
    goes_on_at: int,
) -> None:
    source, state = clusters[0], tmp_path / "state"
    settings = {
        "replication.policy.class": IDENTITY,
        "replication.aggregate.topics": topic_name,
        "replication.guard.target-truncated": policy,
    }
    config = flow_config(source, own_process, topic_name, settings)
    lose_copies(spark, state, config, (source, topic_name), (own_process, topic_name))
    send_records(own_process, topic_name, numbered(300, 340))  # more than were lost
    send_records(source, topic_name, numbered(100, 110))

    flow = drain(spark, state, config)
    drain(spark, state, config)

    copies = [*range(80), *range(300, 340), *range(goes_on_at, 110)]
    assert numbers(own_process, topic_name) == copies
    event = jump(flow)
    assert (event.reaction, event.offset_from, event.offset_until) == (policy, 80, goes_on_at)
    assert translations(flow, topic_name, 79, 100, 110) == [
        Exact(79), Exact(copies.index(100)), Exact(len(copies))
    ]  # fmt: skip


def test_a_shared_target_created_again_is_filled_from_the_start(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    source, target = clusters
    settings = {
        "replication.policy.class": IDENTITY,
        "replication.aggregate.topics": topic_name,
    }
    config = flow_config(source, target, topic_name, settings)
    create_topic(source.bootstrap, topic_name, 1)
    send_records(source, topic_name, numbered(0, 20))
    drain(spark, tmp_path, config)
    delete_topic(target, topic_name)
    create_topic(target.bootstrap, topic_name, 1)
    send_records(target, topic_name, numbered(300, 340))

    flow = drain(spark, tmp_path, config)

    assert numbers(target, topic_name) == [*range(300, 340), *range(20)]
    assert kinds(flow.tables) == ["started-over"]


def test_a_source_topic_created_again_is_appended(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    source, target = clusters
    config = flow_config(
        source, target, topic_name, {"replication.guard.source-recreated": "restart"}
    )
    create_topic(source.bootstrap, topic_name, 1)
    send_records(source, topic_name, numbered(0, 100))
    drain(spark, tmp_path, config)
    delete_topic(source, topic_name)
    create_topic(source.bootstrap, topic_name, 1)
    send_records(source, topic_name, numbered(500, 530))

    flow = drain(spark, tmp_path, config)
    drain(spark, tmp_path, config)

    assert numbers(target, f"A.{topic_name}") == [*range(100), *range(500, 530)]
    assert flow.context.metrics.look().copying.records == {topic_name: 30}
    event = jump(flow)
    assert (event.reaction, event.offset_from, event.offset_until) == ("restart", 0, 0)
    assert "was deleted and created again" in event.text
    assert translations(flow, topic_name, 0, 30) == [Exact(100), Exact(130)]


@pytest.mark.soak
@pytest.mark.parametrize(
    ("cut_side", "copies"),
    [
        pytest.param(0, [*range(100), *range(220, 230)], id="source"),  # 20 records are lost
        pytest.param(1, [*range(80), *range(200, 230)], id="target"),  # 20 copies are missing
    ],
)
def test_mirror_maker_2_goes_on_after_a_cut_without_a_word(
    clusters: Clusters, own_process: Broker, tmp_path: Path, cut_side: int, copies: list[int]
) -> None:
    both = (own_process, clusters[1]) if cut_side == 0 else (clusters[0], own_process)
    flow = unique_flow()
    topic, remote = f"{flow.source}-cut", f"{flow.source}.{flow.source}-cut"
    properties = mm2_properties(both, flow.source, flow.target)
    cut = topic if cut_side == 0 else remote

    def run_until(folder: str, last: int) -> None:
        """Runs MirrorMaker 2 until the last copy is the record *last*."""
        with mirror_maker_2(tmp_path / folder, properties) as mm2:

            def is_done() -> bool:
                mm2.check()
                end = log_ends(both[1].bootstrap, [remote]).get(remote, 0)
                return bool(end) and numbers(both[1], remote)[-1] == last

            wait_until(is_done, MM2_SECONDS)

    create_topic(both[0].bootstrap, topic, 1)
    send_records(both[0], topic, numbered(0, 80))
    run_until("first", 79)
    size = log_bytes(both[cut_side], cut)
    send_records(both[0], topic, numbered(80, 100))
    run_until("second", 99)
    cut_log(both[cut_side], cut, size)
    send_records(both[0], topic, numbered(200, 230))
    run_until("third", 229)

    assert numbers(both[1], remote) == copies
