"""What a flow does where it would lose or repeat records, for each cause and policy.

MirrorMaker 2 goes on in each of these cases without a word; the last test shows it.
"""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from replication.demo.topic_log import log_ends
from replication.demo.workload import create_topic, sending
from replication.errors import GuardError
from replication.offsets.map import Exact
from tests.support.events import kinds, kinds_of_topics
from tests.support.flows import RunningFlow, flow_config, unique_flow
from tests.support.local import Clusters, Until
from tests.support.mirror_maker_2 import mirror_maker_2, mm2_properties
from tests.support.numbered import drain, jump, numbered, numbers, translations
from tests.support.stored import stored
from tests.support.topics import (
    assert_equal,
    copied,
    delete_records,
    delete_topic,
    fill,
    now_ms,
    send,
    send_records,
)

pytestmark = [pytest.mark.cluster, pytest.mark.spark]


@pytest.mark.guarantee
def test_records_that_expired_before_a_start_are_skipped(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    source, target = clusters
    skip = {"replication.guard.records-expired": "skip"}
    config = flow_config(source, target, topic_name, skip)
    create_topic(source.bootstrap, topic_name, 1)
    send_records(source, topic_name, numbered(0, 100))
    drain(spark, tmp_path, config)
    send_records(source, topic_name, numbered(100, 200))
    delete_records(source, topic_name, 150)

    flow = drain(spark, tmp_path, config)

    assert numbers(target, f"A.{topic_name}") == [*range(100), *range(150, 200)]
    event = jump(flow)
    assert (event.reaction, event.offset_from, event.offset_until) == ("skip", 100, 150)
    assert "source offsets 100 to 149 are not copied" in event.text
    assert translations(flow, topic_name, 99, 100, 149, 150, 160) == [
        Exact(99), Exact(100), Exact(100), Exact(100), Exact(110)
    ]  # fmt: skip


@pytest.mark.parametrize("policy", ["skip", pytest.param("fail", marks=pytest.mark.soak)])
def test_retention_that_overtakes_a_running_flow_concerns_its_topic_only(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str, policy: str
) -> None:
    source, target = clusters
    slow, remote = f"{topic_name}-slow", f"A.{topic_name}-slow"
    settings = {
        "replication.guard.records-expired": policy,
        "replication.batch.max.records": "20",
        "A.consumer.max.partition.fetch.bytes": "1",  # one batch, so that little is read ahead
    }
    create_topic(source.bootstrap, slow, 1)
    with sending(source.bootstrap) as sender:
        for start in range(0, 2000, 100):
            sender.send_all(slow, numbered(start, start + 100))
    fill(source, topic_name, 1, 5)
    config = flow_config(source, target, f"{topic_name}.*", settings)
    flow = RunningFlow(spark, tmp_path, config, "microbatch")
    flow.until(lambda: copied(clusters, slow) > 0)

    delete_records(source, slow, 1900)
    wanted = ("jumped" if policy == "skip" else "set-aside", slow)
    flow.until(lambda: wanted in kinds_of_topics(flow.tables))
    send(source, topic_name, 1, 100)
    flow.until(lambda: copied(clusters, topic_name) == 105)
    if policy == "skip":
        flow.until(lambda: numbers(target, remote)[-1] == 1999)
    flow.stop()

    assert_equal(clusters, topic_name)
    events = stored(flow.tables, "events", "kind != 'restarted'")
    (event,) = (row for row in events if (row.kind, row.topic) == wanted)
    if policy == "fail":
        assert numbers(target, remote) == list(range(copied(clusters, slow)))
        assert f"replication accept FILE --flow 'A->B' --topic {slow}" in event.text
        return
    assert len(events) == 1
    kept = event.offset_from
    assert event.offset_until == 1900
    assert numbers(target, remote) == [*range(kept), *range(1900, 2000)]
    assert translations(flow, slow, kept - 1, kept, 1899, 1900, 2000) == [
        Exact(kept - 1), Exact(kept), Exact(kept), Exact(kept), Exact(kept + 100)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("policy", "copies"),
    [
        ("restart", [*range(60, 100)]),
        pytest.param("skip", [], marks=pytest.mark.soak),
        ("fail", None),
    ],
)
def test_a_target_whose_last_records_have_expired_on_the_source(
    spark: SparkSession,
    clusters: Clusters,
    tmp_path: Path,
    topic_name: str,
    policy: str,
    copies: list[int] | None,
) -> None:
    source, target = clusters
    remote, base = f"A.{topic_name}", now_ms()
    config = flow_config(source, target, topic_name, {"replication.guard.unmatched": policy})
    create_topic(source.bootstrap, topic_name, 1)
    create_topic(target.bootstrap, remote, 1)
    send_records(source, topic_name, numbered(0, 100, base))
    send_records(target, remote, numbered(0, 50, base))  # as another replicator does
    delete_records(source, topic_name, 60)

    flow = RunningFlow(spark, tmp_path, config, "drain")
    if copies is None:
        with pytest.raises(GuardError, match="--partition 0 --from 60"):
            flow.join()
        assert numbers(target, remote) == list(range(50))
        return
    flow.join()
    send_records(source, topic_name, numbered(100, 110, base))
    drain(spark, tmp_path, config)

    assert numbers(target, remote) == [*range(50), *copies, *range(100, 110)]
    event = jump(flow)
    assert (event.reaction, event.offset_from, event.offset_until) == (policy, 60, 100)
    assert translations(flow, topic_name, 100, 110) == [
        Exact(50 + len(copies)), Exact(60 + len(copies))
    ]  # fmt: skip


def test_the_policy_stop_ends_the_flow_for_one_topic(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    source, target = clusters
    expired = f"{topic_name}-expired"
    config = flow_config(
        source, target, f"{topic_name}.*", {"replication.guard.records-expired": "stop"}
    )
    fill(source, topic_name, 1, 10)
    fill(source, expired, 1, 10)
    drain(spark, tmp_path, config)
    send(source, topic_name, 1, 10)
    send(source, expired, 1, 10)
    delete_records(source, expired, 15)

    flow = RunningFlow(spark, tmp_path, config, "microbatch")
    with pytest.raises(GuardError, match=f"(?s){expired}-0: .*offsets 10 to 14 were deleted"):
        flow.join()

    assert copied(clusters, topic_name) == 10
    assert kinds(flow.tables) == ["refused"]


def test_retention_on_the_target_is_no_reason_to_stop(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    source, target = clusters
    config = flow_config(source, target, topic_name)
    create_topic(source.bootstrap, topic_name, 1)
    send_records(source, topic_name, numbered(0, 100))
    drain(spark, tmp_path, config)
    delete_records(target, f"A.{topic_name}", 100)
    send_records(source, topic_name, numbered(100, 120))

    flow = drain(spark, tmp_path, config)

    assert numbers(target, f"A.{topic_name}") == list(range(100, 120))
    assert kinds(flow.tables) == []
    assert translations(flow, topic_name, 50, 110) == [Exact(50), Exact(110)]


@pytest.mark.parametrize(
    "policy",
    ["skip", *(pytest.param(policy, marks=pytest.mark.soak) for policy in ("restart", "fail"))],
)
def test_another_producer_is_noticed_while_the_flow_runs(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str, policy: str
) -> None:
    source, target = clusters
    shared, remote = f"{topic_name}-shared", f"A.{topic_name}-shared"
    config = flow_config(
        source, target, f"{topic_name}.*", {"replication.guard.foreign-records": policy}
    )
    fill(source, topic_name, 1, 10)
    create_topic(source.bootstrap, shared, 1)
    send_records(source, shared, numbered(0, 100))
    flow = RunningFlow(spark, tmp_path, config, "microbatch")
    flow.until(lambda: copied(clusters, shared) == 100)

    send_records(target, remote, numbered(7000, 7003))
    send_records(source, shared, numbered(100, 150))
    ends = {"skip": 153, "restart": 153 + 150, "fail": 153}
    kind = {"skip": "realigned", "restart": "jumped", "fail": "set-aside"}[policy]
    flow.until(lambda: (kind, shared) in kinds_of_topics(flow.tables))
    send(source, topic_name, 1, 10)
    flow.until(lambda: copied(clusters, topic_name) == 20)
    flow.until(lambda: copied(clusters, shared) == ends[policy])
    flow.stop()

    once = [*range(100), *range(7000, 7003), *range(100, 150)]
    repeated = range(150) if policy == "restart" else ()
    assert numbers(target, remote) == [*once, *repeated]
    assert_equal(clusters, topic_name)
    if policy == "restart":
        answers = translations(flow, shared, 0, 110, 150)
        assert answers == [Exact(153), Exact(263), Exact(303)]
    elif policy == "skip":
        answers = translations(flow, shared, 99, 110, 150)
        assert answers == [Exact(99), Exact(113), Exact(153)]


@pytest.mark.soak
def test_mirror_maker_2_goes_on_without_a_word(
    clusters: Clusters, tmp_path: Path, until: Until
) -> None:
    source, target = clusters
    flow = unique_flow()
    topics = tuple(
        f"{flow.source}-{name}" for name in ("expired", "again", "grown", "refilled", "foreign")
    )
    expired, again, grown, refilled, foreign = topics
    properties = mm2_properties(clusters, flow.source, flow.target)

    def copies(topic: str) -> list[int]:
        return numbers(target, f"{flow.source}.{topic}")

    def run_until(folder: str, *ends: int) -> None:
        """Runs MirrorMaker 2 until the remote topics, in order, end at these offsets."""
        remote = {f"{flow.source}.{topic}": end for topic, end in zip(topics, ends, strict=True)}
        with mirror_maker_2(tmp_path / folder, properties) as mm2:

            def is_done() -> bool:
                mm2.check()
                return log_ends(target.bootstrap, list(remote)) == remote

            until(is_done, 60)

    for topic in topics:
        create_topic(source.bootstrap, topic, 1)
        send_records(source, topic, numbered(0, 100))
    run_until("first", 100, 100, 100, 100, 100)
    send_records(source, expired, numbered(100, 200))
    delete_records(source, expired, 150)
    for topic, count in ((again, 30), (grown, 150)):
        delete_topic(source, topic)
        create_topic(source.bootstrap, topic, 1)
        send_records(source, topic, numbered(500, 500 + count))
    delete_topic(target, f"{flow.source}.{refilled}")
    send_records(source, refilled, numbered(100, 110))
    send_records(target, f"{flow.source}.{foreign}", numbered(7000, 7003))
    send_records(source, foreign, numbered(100, 110))
    run_until("second", 150, 130, 150, 10, 113)

    assert copies(expired) == [*range(100), *range(150, 200)]  # 50 records are lost
    assert copies(again) == [*range(100), *range(500, 530)]
    assert copies(grown) == [*range(100), *range(600, 650)]  # 100 records are lost
    assert copies(refilled) == [*range(100, 110)]  # 100 records are missing on the target
    assert copies(foreign) == [*range(100), *range(7000, 7003), *range(100, 110)]
