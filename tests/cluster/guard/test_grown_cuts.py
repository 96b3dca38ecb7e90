"""A log that was cut has grown beyond the offset map before the flow asks again.

Offsets do not show that. The epochs of leaders do, and where nobody has noted any, records.
"""

from pathlib import Path

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from replication.cli.main import main
from replication.demo.brokers import Broker
from replication.demo.topic_log import log_ends
from replication.demo.workload import create_topic
from replication.errors import GuardError
from replication.model import Mode, TopicPartition
from replication.offsets.map import Bounded, Exact
from replication.spark.session import jvm_of
from tests.support.cut_log import cut_log, log_bytes
from tests.support.flows import RunningFlow, flow_config
from tests.support.local import Clusters
from tests.support.mirror_files import FLOW, write_config
from tests.support.numbered import drain, jump, numbered, numbers, translations
from tests.support.offset_tables import forget_epochs
from tests.support.process_tree import paused
from tests.support.stored import stored, stored_runs
from tests.support.topics import send_records

pytestmark = [pytest.mark.cluster, pytest.mark.spark]


def written_until(flow: RunningFlow, topic: str) -> int:
    """The end of the stored map."""
    runs = stored_runs(flow.tables, FLOW, TopicPartition(topic, 0))
    return runs[-1].src_until if runs else 0


def refill(broker: Broker, topic: str, size: int) -> None:
    """Cuts the log to *size* bytes, and lets it grow beyond its end of before."""
    cut_log(broker, topic, size)
    send_records(broker, topic, numbered(200, 260))


@pytest.mark.parametrize("state", ["with epochs", "of the version before"])
@pytest.mark.parametrize("source", ["shared", "spark"])
def test_a_source_that_has_grown_beyond_the_map_goes_on_at_the_cut(
    spark: SparkSession,
    clusters: Clusters,
    own_process: Broker,
    tmp_path: Path,
    topic_name: str,
    state: str,
    source: str,
) -> None:
    _, target = clusters
    config = flow_config(
        own_process,
        target,
        topic_name,
        {"replication.guard.source-truncated": "skip", "replication.source": source},
    )
    create_topic(own_process.bootstrap, topic_name, 1)
    send_records(own_process, topic_name, numbered(0, 80))
    size = log_bytes(own_process, topic_name)
    send_records(own_process, topic_name, numbered(80, 100))
    drain(spark, tmp_path, config)
    if state == "of the version before":
        forget_epochs(tmp_path)
    refill(own_process, topic_name, size)

    flow = drain(spark, tmp_path, config)
    drain(spark, tmp_path, config)

    assert numbers(target, f"A.{topic_name}") == [*range(100), *range(200, 260)]
    event = jump(flow)
    assert (event.reaction, event.offset_from, event.offset_until) == ("skip", 80, 80)
    assert translations(flow, topic_name, 80, 140) == [Exact(100), Exact(160)]


@pytest.mark.parametrize("state", ["with epochs", "of the version before"])
def test_what_a_target_loses_between_two_drains_is_copied_again_once(
    spark: SparkSession,
    clusters: Clusters,
    own_process: Broker,
    tmp_path: Path,
    topic_name: str,
    state: str,
) -> None:
    """Somebody else's records fill the log that was cut beyond the map's end."""
    source, _ = clusters
    remote = f"A.{topic_name}"
    settings = {"replication.guard.target-truncated": "restart"}
    config = flow_config(source, own_process, topic_name, settings)
    create_topic(source.bootstrap, topic_name, 1)
    send_records(source, topic_name, numbered(0, 80))
    drain(spark, tmp_path, config)
    size = log_bytes(own_process, remote)
    send_records(source, topic_name, numbered(80, 100))
    drain(spark, tmp_path, config)
    if state == "of the version before":
        forget_epochs(tmp_path)
    cut_log(own_process, remote, size)
    send_records(own_process, remote, numbered(500, 530))
    send_records(source, topic_name, numbered(100, 110))

    flow = drain(spark, tmp_path, config)
    drain(spark, tmp_path, config)

    assert numbers(own_process, remote) == [*range(80), *range(500, 530), *range(80, 110)]
    event = jump(flow)
    assert (event.reaction, event.offset_from) == ("restart", 80)
    assert translations(flow, topic_name, 80, 110) == [Exact(110), Exact(140)]


@pytest.mark.parametrize(
    ("source", "mode"),
    [
        pytest.param("shared", "realtime", marks=pytest.mark.guarantee),
        pytest.param("shared", "microbatch", marks=pytest.mark.guarantee),
        pytest.param("spark", "realtime", marks=pytest.mark.guarantee),
        pytest.param("spark", "microbatch", marks=pytest.mark.soak),
    ],
)
def test_a_source_that_is_cut_while_the_flow_runs_goes_on_at_the_cut(
    spark: SparkSession,
    clusters: Clusters,
    own_process: Broker,
    tmp_path: Path,
    topic_name: str,
    source: str,
    mode: Mode,
) -> None:
    _, target = clusters
    remote = f"A.{topic_name}"
    settings = {
        "replication.guard.source-truncated": "skip",
        "state.write.interval.seconds": "1",
        "replication.source": source,
    }
    config = flow_config(own_process, target, topic_name, settings)
    create_topic(own_process.bootstrap, topic_name, 1)
    send_records(own_process, topic_name, numbered(0, 80))
    size = log_bytes(own_process, topic_name)
    send_records(own_process, topic_name, numbered(80, 100))
    flow = RunningFlow(spark, tmp_path, config, mode)
    flow.until(lambda: log_ends(target.bootstrap, [remote]).get(remote, 0) == 100)
    flow.until(lambda: written_until(flow, topic_name) == 100)

    with paused([jvm_of(spark).java.lang.ProcessHandle.current().pid()]):  # as a busy task would
        refill(own_process, topic_name, size)
    flow.until(lambda: numbers(target, remote)[-60:] == [*range(200, 260)], 120)
    flow.until(lambda: written_until(flow, topic_name) == 140)
    flow.stop()

    got = numbers(target, remote)
    again = got[100:-60]  # Spark's clients may read on before anybody has asked the leader
    assert got == [*range(100), *again, *range(200, 260)]
    assert again in ([], [*range(220, 260)] if source == "spark" else [])
    (event,) = [each for each in stored(flow.tables, "events") if each.kind == "jumped"]
    span = (100, 140) if again else (80, 80)
    assert (event.reaction, event.offset_from, event.offset_until) == ("skip", *span)
    assert ("source offsets 100 to 139 may be copied again" in event.text) == bool(again)
    assert translations(flow, topic_name, 80, 140) == [Exact(len(got) - 60), Exact(len(got))]


@pytest.mark.guarantee
def test_a_cut_behind_the_map_that_was_refilled_before_its_next_write_is_noticed(
    spark: SparkSession,
    clusters: Clusters,
    own_process: Broker,
    tmp_path: Path,
    topic_name: str,
) -> None:
    """Spark's own source reads on without a question, so the last record equals its copy."""
    _, target = clusters
    remote = f"A.{topic_name}"
    settings = {
        "replication.guard.source-truncated": "skip",
        "state.write.interval.seconds": "3600",
        "replication.source": "spark",
    }
    config = flow_config(own_process, target, topic_name, settings)
    create_topic(own_process.bootstrap, topic_name, 1)
    send_records(own_process, topic_name, numbered(0, 80))
    drain(spark, tmp_path, config)
    flow = RunningFlow(spark, tmp_path, config, "realtime")
    flow.until(lambda: flow.context.metrics.look().state.activity == "replicating")
    send_records(own_process, topic_name, numbered(80, 90))
    size = log_bytes(own_process, topic_name)
    send_records(own_process, topic_name, numbered(90, 100))
    flow.until(lambda: log_ends(target.bootstrap, [remote]).get(remote, 0) == 100)

    with paused([jvm_of(spark).java.lang.ProcessHandle.current().pid()]):  # as a busy task would
        refill(own_process, topic_name, size)
    flow.until(lambda: numbers(target, remote)[-1] == 259, 120)
    flow.stop()
    flow = drain(spark, tmp_path, config)

    got = numbers(target, remote)
    assert got == [*range(100), *got[100:-60], *range(200, 260)]
    assert got[100:-60] in ([*range(210, 260)], [])
    assert translations(flow, topic_name, 90, 150) == [Exact(len(got) - 60), Exact(len(got))]
    events = stored(flow.tables, "events")
    kinds = {each.kind for each in events}
    assert kinds & {"jumped", "realigned"}  # where the pause costs the lease, records tell the cut
    for event in events:
        if event.kind == "jumped":
            assert "offset 90" in event.text
            again = "source offsets 91 to 149 may be copied again" in event.text
            assert again == bool(got[100:-60])


@pytest.mark.parametrize(
    ("mode", "policy", "state"),
    [
        pytest.param("realtime", "restart", "with epochs", marks=pytest.mark.guarantee),
        ("microbatch", "restart", "of the version before"),
        ("microbatch", "skip", "with epochs"),
    ],
)
def test_what_a_target_loses_while_the_flow_runs_is_copied_again_once(
    spark: SparkSession,
    clusters: Clusters,
    own_process: Broker,
    tmp_path: Path,
    topic_name: str,
    mode: Mode,
    policy: str,
    state: str,
) -> None:
    source, _ = clusters
    remote = f"A.{topic_name}"
    settings = {
        "replication.guard.target-truncated": policy,
        "state.write.interval.seconds": "1",
        "replication.source": "shared",
    }
    config = flow_config(source, own_process, topic_name, settings)
    create_topic(source.bootstrap, topic_name, 1)
    send_records(source, topic_name, numbered(0, 80))
    drain(spark, tmp_path, config)
    size = log_bytes(own_process, remote)
    send_records(source, topic_name, numbered(80, 100))
    drain(spark, tmp_path, config)
    if state == "of the version before":
        forget_epochs(tmp_path)
    flow = RunningFlow(spark, tmp_path, config, mode)
    flow.until(lambda: flow.context.metrics.look().state.activity == "replicating")

    cut_log(own_process, remote, size)
    send_records(source, topic_name, numbered(200, 260))
    flow.until(lambda: [each for each in stored(flow.tables, "events") if each.kind == "jumped"])
    send_records(source, topic_name, numbered(300, 330))
    flow.until(lambda: 329 in numbers(own_process, remote), 120)
    flow.stop()

    lost = [*range(80, 100)] if policy == "restart" else []
    assert numbers(own_process, remote) == [
        *range(80), *range(200, 260), *lost, *range(300, 330)
    ]  # fmt: skip
    (event,) = [each for each in stored(flow.tables, "events") if each.kind == "jumped"]
    assert event.reaction == policy
    assert ("are not copied" in event.text) == (policy == "skip")
    assert "offset 80" in event.text
    answer = Exact(80) if policy == "restart" else Bounded(80, 0, never_copied=20)
    assert translations(flow, topic_name, 80) == [answer]


@pytest.mark.parametrize("state", ["with epochs", "of the version before"])
def test_without_a_policy_plan_shows_the_cut_and_an_operator_accepts_it(
    spark: SparkSession,
    clusters: Clusters,
    own_process: Broker,
    tmp_path: Path,
    topic_name: str,
    state: str,
) -> None:
    _, target = clusters
    file = write_config(tmp_path, (own_process, target), topic_name)
    config = flow_config(own_process, target, topic_name)
    create_topic(own_process.bootstrap, topic_name, 1)
    send_records(own_process, topic_name, numbered(0, 80))
    size = log_bytes(own_process, topic_name)
    send_records(own_process, topic_name, numbered(80, 100))
    drain(spark, tmp_path / "state", config)
    if state == "of the version before":
        forget_epochs(tmp_path / "state")
    refill(own_process, topic_name, size)

    with pytest.raises(GuardError, match="up to offset 80 it has the records that were copied"):
        drain(spark, tmp_path / "state", config)
    shown = CliRunner().invoke(main, ["plan", str(file), "--json"])
    asked = ["accept", str(file), "--flow", str(FLOW), "--topic", topic_name, "--from", "80"]
    accepted = CliRunner().invoke(main, [*asked, "--execute"])
    drain(spark, tmp_path / "state", config)

    assert (shown.exit_code, "offset 80" in shown.output) == (5, True), shown.output
    assert accepted.exit_code == 0, accepted.output
    assert numbers(target, f"A.{topic_name}") == [*range(100), *range(200, 260)]
