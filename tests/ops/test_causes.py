"""What happens to a running mirror makes each alert fire in a real Prometheus; its end clears it.

The rules are those of conf/monitoring with seconds in place of minutes. One mirror serves most
tests, each of which has topics of its own.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from replication.demo.brokers import Broker, BrokerSettings
from replication.demo.brokers import running as running_brokers
from replication.demo.play import MirrorProcess
from replication.demo.topic_log import log_ends
from replication.demo.workload import create_topic
from replication.state.locks import hold_commit_lock
from tests.support.commands import replication, start_mirror
from tests.support.driver import page
from tests.support.known_load import load
from tests.support.letters import LIMIT, too_large
from tests.support.local import Clusters
from tests.support.process_tree import family, paused
from tests.support.prometheus import queries
from tests.support.standalone import WorkerSize, standalone
from tests.support.topic_settings import alter_topic
from tests.support.topics import assert_copies, delete_topic, fill, send, send_records
from tests.support.watched import Watched, commit, member, watched
from tests.support.wrong_clock import wrong_clock

pytestmark = [pytest.mark.cluster, pytest.mark.job]

OLD, NEW = 100, 50
AHEAD_SECONDS = 7
RETENTION_MS = 1_800_000
STALL_SECONDS = 180.0
BACKLOG = (
    *("ClusterUnreachable", "NoOwner", "LagHigh", "LagVeryHigh", "LagGrowing"),
    *("RetentionNear", "PartitionStalled"),
)
"""What fires while a target stands still; the last one after two minutes."""

MIRROR: dict[str, object] = {
    "emit.checkpoints.interval.seconds": 1,
    "emit.heartbeats.enabled": False,  # a job of its own emits them
    "heartbeats.replication.enabled": True,
    "metrics.mm2.names": True,
    "refresh.groups.interval.seconds": 2,
    "replication.dead.letters": "table",
    "state.write.interval.seconds": 1,
    "status.publish.interval.seconds": 1,
    "sync.group.offsets.enabled": True,
    "sync.group.offsets.interval.seconds": 1,
}

# An executor that was paused goes on only within its lease; the alert needs up to nine seconds.
LONG_LEASE = ("--conf", "spark.replication.executor.lease.ms=60000")


@pytest.fixture(scope="module")
def mirror(
    broker_settings: BrokerSettings, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Watched]:
    """A mirror between clusters of its own, which tests may pause."""
    folder = tmp_path_factory.mktemp("causes")
    source, target = (Broker(name, folder / name, broker_settings) for name in ("from", "to"))
    with running_brokers(source, target), watched(folder, (source, target), MIRROR) as found:
        fill(source, found.topic("always"), 1, OLD)  # goes on, and the flow with it
        found.until_copied(found.topic("always"), OLD)
        yield found


@pytest.fixture(scope="module")
def heartbeats(mirror: Watched) -> Iterator[MirrorProcess]:
    """A job that emits the heartbeats of the source."""
    file = mirror.file.with_name("heartbeats.yaml")
    text = mirror.file.read_text().replace("/state", "/state-of-heartbeats")
    text = text.replace("emit.heartbeats.enabled: false", "emit.heartbeats.enabled: true")
    file.write_text(text.replace(f"metrics.port: {mirror.port}", "metrics.port: 0"))
    job = start_mirror(file, file.with_suffix(".log"), "--job", "heartbeats")
    try:
        yield job
    finally:
        job.discard()


def created_again(mirror: Watched, name: str) -> str:
    """A topic that was deleted and created again, so that it is set aside."""
    topic = mirror.topic(name)
    fill(mirror.source, topic, 1, OLD)
    commit(mirror.source, name, topic, OLD)
    mirror.until_copied(topic, OLD)
    mirror.until(lambda: mirror.figure("group_position_age_seconds", group=name) == 0)
    delete_topic(mirror.source, topic)
    fill(mirror.source, topic, 1, NEW)
    commit(mirror.source, name, topic, NEW)
    mirror.until_fires("TopicSetAside", topic=topic)
    return topic


def accept(mirror: Watched, topic: str) -> None:
    """Lets *topic* go on without what it has now."""
    accepting = ("--flow", str(mirror.flow), "--topic", topic, "--from", "latest", "--execute")
    accepted = replication("accept", mirror.file, *accepting)
    assert accepted.returncode == 0, accepted.stderr


def test_a_topic_that_was_created_again_is_set_aside_until_it_is_accepted(mirror: Watched) -> None:
    given_up = partial(mirror.figure, "given_up_offsets_total", cause="source-recreated")
    before = given_up() or 0  # other tests of this mirror accept such a topic as well
    topic, group = created_again(mirror, "again"), "again"
    mirror.until_fires("GroupPositionOld", group=group)
    assert topic in replication("groups", mirror.file).stdout
    shown = replication("status", mirror.file).stdout
    assert re.search(rf"accept FILE --flow '{mirror.flow}' --topic {topic}", shown), shown

    accept(mirror, topic)
    mirror.until_fires("RecordsGivenUp", cause="source-recreated")
    mirror.until_clear("TopicSetAside", topic=topic)
    assert given_up() == before + NEW
    assert topic in replication("events", mirror.file, "--kind", "jumped").stdout
    send(mirror.source, topic, 1, NEW)
    mirror.until_copied(topic, OLD + NEW)
    commit(mirror.source, group, topic, 2 * NEW)
    mirror.until_clear("GroupPositionOld", group=group)
    mirror.until_clear("RecordsGivenUp")


def test_a_record_that_is_too_large_is_a_letter_until_it_is_copied_again(mirror: Watched) -> None:
    topic = mirror.topic("large")
    create_topic(mirror.target.bootstrap, mirror.remote(topic), 1, {LIMIT: "100000"})
    create_topic(mirror.source.bootstrap, topic, 1)
    large = too_large()
    send_records(mirror.source, topic, [replace(large, value=b"small"), large])
    mirror.until_copied(topic, 1)
    mirror.until_fires("DeadLetters")
    command = "dead-letters", mirror.file, "--topic", topic
    (letter,) = json.loads(replication(*command, "--json").stdout)["letters"]
    assert (letter["offset"], letter["place"]) == (1, "table")
    assert "dead-letters" in replication("status", mirror.file).stdout
    (planned,) = json.loads(replication("plan", mirror.file, "--json").stdout)["flows"]
    waiting = [one for one in planned["dead_letters"] if one["topic"] == topic]
    assert [(one["place"], one["letters"]) for one in waiting] == [("table", 1)]

    alter_topic(mirror.target, mirror.remote(topic), LIMIT, "1000000")
    assert "asked to copy 1 again" in replication(*command, "--copy-again").stdout
    mirror.until_copied(topic, 2)
    mirror.until_clear("DeadLetters")
    assert "no dead letter waits" in replication(*command).stdout


def test_what_an_operator_has_paused_for_long(mirror: Watched) -> None:
    topic = mirror.topic("still")
    fill(mirror.source, topic, 1, OLD)
    mirror.until_copied(topic, OLD)
    paused = replication("pause", mirror.file, "--topic", topic)
    mirror.until_fires("PausedLong")
    resumed = replication("resume", mirror.file, "--topic", topic)
    mirror.until_clear("PausedLong")
    assert (paused.returncode, resumed.returncode) == (0, 0), paused.stderr + resumed.stderr


def test_a_group_that_is_active_on_the_target_is_blocked(mirror: Watched) -> None:
    topic, group = mirror.topic("busy"), "busy"
    fill(mirror.source, topic, 1, OLD)
    commit(mirror.source, group, topic, OLD)
    mirror.until_copied(topic, OLD)
    with member(mirror.target, group, mirror.remote(topic)):
        mirror.until_fires("GroupBlocked", group=group)
        assert group in replication("groups", mirror.file).stdout
    mirror.until_clear("GroupBlocked", group=group)


def test_an_offset_map_that_cannot_be_written(mirror: Watched) -> None:
    """A file is in the place of its table; then another process has the lock of its commits."""
    topic, state = mirror.topic("unwritten"), mirror.file.parent / "state"
    fill(mirror.source, topic, 1, OLD)
    mirror.until_copied(topic, OLD)
    with load(mirror.source, topic, 1, 10, 20) as sent:
        table = state / "offset_runs"
        away = table.rename(state / "away")
        table.touch()
        try:
            mirror.until_fires("StateNotWritten", table="offset_runs")
        finally:
            table.unlink()
            away.rename(table)
        mirror.until_clear("StateNotWritten")
        with hold_commit_lock(state / "_locks" / "offset_runs.commit"):
            mirror.until_fires("MapOld")
        mirror.until_clear("MapOld")
    mirror.until_copied(topic, OLD + sent.records)


def test_heartbeats_that_stop(mirror: Watched, heartbeats: MirrorProcess) -> None:
    mirror.until(lambda: mirror.figure("heartbeat_timestamp_seconds"))
    mirror.until_clear("HeartbeatsMissing")
    with paused(family(heartbeats.pid)):
        mirror.until_fires("HeartbeatsMissing")
    mirror.until_clear("HeartbeatsMissing")


def test_a_source_that_is_silent(mirror: Watched) -> None:
    """Nothing hangs: a new start would wait for it, too."""
    with paused(family(mirror.source.pid or 0)):
        mirror.until_fires("ClusterUnreachable", cluster=mirror.flow.source)
        assert page(mirror.port, "/livez")[0] == 200
    mirror.until_clear("ClusterUnreachable")


@pytest.mark.usefixtures("heartbeats")
def test_a_target_that_stands_still_and_what_the_boards_have_shown(mirror: Watched) -> None:
    """A backlog grows and ages, until the source is about to delete it."""
    accept(mirror, created_again(mirror, "aside"))  # or it would be late for good
    topic, always = mirror.topic("held-up"), mirror.topic("always")
    create_topic(mirror.source.bootstrap, topic, 1, {"retention.ms": str(RETENTION_MS)})
    send(mirror.source, topic, 1, OLD)
    mirror.until_copied(topic, OLD)
    commit(mirror.source, "always", always, OLD)
    with member(mirror.target, "always", mirror.remote(always)):
        mirror.until_fires("GroupBlocked", group="always")
    with load(mirror.source, topic, 1, 10, 20) as sent:
        with paused(family(mirror.target.pid or 0)):
            for alert in (*BACKLOG, "FreshnessBurnsFast", "FreshnessBurnsSlowly"):
                mirror.until_fires(alert, STALL_SECONDS)
            assert page(mirror.port, "/livez")[0] == 200
            (flow,) = json.loads(page(mirror.port, "/status")[1])["flows"]
            codes = {condition["code"] for condition in flow["conditions"]}
            assert {"stalled", "retention-near", "cluster-unreachable"} <= codes
        for alert in (*BACKLOG, "FreshnessBurnsFast"):
            mirror.until_clear(alert)
    remote = mirror.remote(topic)
    end = partial(log_ends, mirror.target.bootstrap, [remote])
    mirror.until(lambda: end()[remote] >= OLD + sent.records)
    assert_copies((mirror.source, mirror.target), {topic: remote})
    for metrics in ("grafana-flow", "grafana-failover"):
        asked = queries(metrics)
        assert [one for one in asked if not mirror.prometheus.has_had(one[1], mirror.since)] == []


def test_executors_that_are_silent_or_lost(clusters: Clusters, tmp_path: Path) -> None:
    with (
        standalone(tmp_path / "spark", workers=1, size=WorkerSize(cores=4)) as spark,
        watched(tmp_path, clusters, MIRROR, ("--", *spark.job_arguments(), *LONG_LEASE)) as mirror,
    ):
        topic = mirror.topic("one")
        fill(mirror.source, topic, 1, OLD)
        mirror.until_copied(topic, OLD)
        (worker,) = spark.workers
        with paused(worker.executors()):
            mirror.until_fires("ReportsLate")
        mirror.until_clear("ReportsLate")
        assert mirror.figure("restarts_total", part="records") == 0
        worker.kill_executors()
        mirror.until_fires("Restarting", part="records")
        send(mirror.source, topic, 1, NEW)
        mirror.until_copied(topic, OLD + NEW)
        mirror.until_clear("Restarting")


def test_a_source_whose_clock_is_wrong(
    broker_settings: BrokerSettings, clusters: Clusters, tmp_path: Path
) -> None:
    """Nothing is written to it: its controllers tell the time."""
    clock = wrong_clock(broker_settings, tmp_path)
    clock.set_ahead(AHEAD_SECONDS)
    source = Broker("ahead", tmp_path / "ahead", clock.settings)
    with running_brokers(source), watched(tmp_path, (source, clusters[1]), MIRROR) as mirror:
        topic, name = mirror.topic("one"), mirror.flow.source
        fill(source, topic, 1, OLD)
        mirror.until_copied(topic, OLD)
        mirror.until_fires("ClockSkew", cluster=name)
        skew = mirror.figure("clock_skew_seconds", cluster=name)
        assert skew == pytest.approx(AHEAD_SECONDS, abs=1)
        told = f"the clock of cluster {name} is {AHEAD_SECONDS}"
        assert told in replication("status", mirror.file).stdout
        found = json.loads(replication("doctor", mirror.file, "--json").stdout)["findings"]
        (row,) = [row for row in found if row["what"] == f"clock of {name}"]
        assert f"{AHEAD_SECONDS} s ahead of that of this machine" in row["found"]
        clock.set_ahead(0)
        source.restart()
        mirror.until_clear("ClockSkew")
