"""High availability is two processes: whatever happens to the active one, the other goes on.

Both run as a user runs them, through spark-submit.sh. They stand for two machines that share a
state directory: they have the same tables, but not the same lock files.
"""

import json
import logging
import os
import re
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

import pytest

from replication.demo.brokers import BrokerSettings
from replication.demo.compare import compare
from replication.demo.play import MirrorProcess
from replication.demo.topic_log import log_ends
from replication.demo.workload import PacedProducer, create_topic, plain_records
from replication.errors import LeaseError
from replication.kafka.ownership import QUICK
from replication.model import Flow
from replication.state.lease import AFTER_DEATH, FLUSH_SECONDS
from tests.support.cli import ok, run
from tests.support.commands import spark_submit, start_mirror
from tests.support.flows import unique_flow
from tests.support.local import Clusters
from tests.support.mirror_files import write_config
from tests.support.numbered import numbered, numbers
from tests.support.process_tree import family, kill_tree
from tests.support.proxy import proxied_broker
from tests.support.rates import TIMES, sent_to
from tests.support.stored import stored
from tests.support.topics import now_ms, send_records
from tests.support.two_machines import write_two_configs
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.job, pytest.mark.timeout(1800)]

log = logging.getLogger(__name__)

PARTITIONS = 2
START_SECONDS = 60.0
TAKEOVER_SECONDS = 60.0
PATIENT = ("--wait", "300")  # until it is in force
RATE, SENT = 50, 200


@dataclass(frozen=True, slots=True)
class Pair:
    """A flow with a topic, and two configurations of it: one for each machine."""

    clusters: Clusters
    flow: Flow
    topic: str
    first: Path
    second: Path

    @property
    def remote(self) -> str:
        """The topic's copy on the target."""
        return f"{self.flow.source}.{self.topic}"

    def sent(self) -> int:
        """The number of records on the source."""
        return log_ends(self.clusters[0].bootstrap, [self.topic])[self.topic]

    def copied(self) -> int:
        """The number of records on the target."""
        return log_ends(self.clusters[1].bootstrap, [self.remote])[self.remote]


@pytest.fixture
def pair(clusters: Clusters, tmp_path: Path, topic_name: str) -> Pair:
    return pair_of(clusters, tmp_path, topic_name)


def pair_of(clusters: Clusters, tmp_path: Path, topic_name: str) -> Pair:
    flow = unique_flow()
    create_topic(clusters[0].bootstrap, topic_name, PARTITIONS)
    more = {"groups": [f"{topic_name}.*"], "replication.realtime.batch.seconds": 5}
    configs = write_two_configs(tmp_path, clusters, topic_name, more, flow)
    return Pair(clusters, flow, topic_name, *configs)


@contextmanager
def producing(pair: Pair) -> Iterator[None]:
    records = plain_records(PARTITIONS, size_bytes=200, now_ms=now_ms())
    producer = PacedProducer(
        pair.clusters[0].bootstrap, {pair.topic: records}, records_per_second=500
    )
    producer.start()
    try:
        yield
    finally:
        producer.finish()


def started(stack: ExitStack, config: Path, *arguments: str) -> MirrorProcess:
    mirror = start_mirror(config, config.with_suffix(".log"), *arguments)
    stack.callback(mirror.discard)
    return mirror


def await_growth(pair: Pair, mirror: MirrorProcess, seconds: float) -> None:
    """Returns once *mirror* has copied more records."""
    before = pair.copied()

    def has_grown() -> bool:
        mirror.check()
        return pair.copied() > before

    wait_until(has_grown, seconds)


def active_and_standby(stack: ExitStack, pair: Pair) -> tuple[MirrorProcess, MirrorProcess]:
    """Two running processes: one copies, and the other waits for its lease."""
    active = started(stack, pair.first, "--standby")
    await_growth(pair, active, START_SECONDS)
    standby = started(stack, pair.second, "--standby")
    await_line(standby, "event=standby_ready", START_SECONDS)
    return active, standby


def await_line(mirror: MirrorProcess, text: str, seconds: float) -> None:
    """Returns once the log of *mirror* has *text*."""
    wait_until(lambda: text in mirror.log.read_text(errors="replace"), seconds)


def said(mirror: MirrorProcess, event: str) -> list[tuple[datetime, str]]:
    """The lines of the log about *event*, with their times."""
    lines = mirror.log.read_text(errors="replace").splitlines()
    found = [line for line in lines if f" event={event} " in f"{line} "]
    return [(datetime.strptime(line.split()[0], "%Y-%m-%dT%H:%M:%S.%f%z"), line) for line in found]


def signal_tree(mirror: MirrorProcess, number: signal.Signals) -> None:
    for pid in family(mirror.pid):
        os.kill(pid, number)


def assert_all_copied_once(pair: Pair, tmp_path: Path) -> None:
    """A drain ends the work; then both sides are equal, and nothing was realigned."""
    drain = spark_submit(pair.second, "--mode", "drain")
    assert drain.returncode == 0, drain.stdout[-3000:]
    source, target = pair.clusters
    report = compare(source.bootstrap, target.bootstrap, {pair.topic: pair.remote})[pair.topic]
    assert report.is_equal, str(report)
    of_flow = f"flow = '{pair.flow}' AND NOT kind IN ('reachable', 'unreachable')"
    assert stored(tmp_path / "first" / "state", "events", of_flow) == []


@pytest.mark.guarantee
def test_a_warm_standby_goes_on_when_the_active_process_is_killed(
    pair: Pair, tmp_path: Path
) -> None:
    with producing(pair), ExitStack() as stack:
        active, standby = active_and_standby(stack, pair)
        killed = datetime.now(timezone.utc)
        kill_tree(active.pid)
        await_growth(pair, standby, TAKEOVER_SECONDS)

    # Not since the kill, if it can be helped: the session comes first, and takes longer than the
    # wait. Without its line reading the table took as long, and only the sum can be held.
    began, least = killed, QUICK.silence + FLUSH_SECONDS - 2 * QUICK.heartbeat
    for at, line in said(standby, "lease_handover")[:1]:  # of the records: others follow them
        began, least = at, float(line.partition(" seconds=")[2].split()[0]) - 0.1
    held, _ = said(standby, "lease_held")[0]
    assert (held - began).total_seconds() >= least > 0
    assert_all_copied_once(pair, tmp_path)


@pytest.mark.guarantee
def test_a_paused_owner_writes_nothing_when_it_goes_on_after_a_takeover(
    pair: Pair, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        with producing(pair):
            active, standby = active_and_standby(stack, pair)
        # What its producers hold at the pause is beyond its reach, so they must hold nothing.
        wait_until(lambda: pair.copied() == pair.sent(), START_SECONDS)
        signal_tree(active, signal.SIGSTOP)
        with producing(pair):
            await_growth(pair, standby, TAKEOVER_SECONDS)
            signal_tree(active, signal.SIGCONT)
            await_line(active, "event=lease_lost", START_SECONDS)
            await_line(active, "event=lease_awaited", START_SECONDS)
            await_growth(pair, standby, START_SECONDS)
        active.check()

    assert_all_copied_once(pair, tmp_path)


@pytest.mark.guarantee
def test_what_operators_have_changed_holds_at_the_standby_that_takes_over(
    clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    flow, paused, other = unique_flow(), f"{topic_name}-a", f"{topic_name}-b"
    for topic in (paused, other):
        create_topic(clusters[0].bootstrap, topic, 1)
        send_records(clusters[0], topic, numbered(0, 10))
    more = {**TIMES, "groups": [f"{topic_name}.*"], "replication.realtime.batch.seconds": 5}
    config = write_config(tmp_path, clusters, f"{topic_name}.*", more, flow)

    def have(count: int, *topics: str) -> bool:
        remote = [f"{flow.source}.{topic}" for topic in topics]
        ends = log_ends(clusters[1].bootstrap, remote)
        return all(ends.get(name) == count for name in remote)

    def shown() -> dict[str, object]:
        """Where the paused partition stands; whoever runs the flow writes its map first."""
        command = run("positions", config, "--topic", paused, "--json")
        (row,) = json.loads(ok(command).stdout)["positions"]
        return dict(row)

    with ExitStack() as stack:
        active = started(stack, config)
        wait_until(lambda: have(10, paused, other), START_SECONDS)
        standby = start_mirror(config, tmp_path / "standby.log", "--standby")
        stack.callback(standby.discard)
        await_line(standby, "event=lease_awaited", START_SECONDS)
        ok(run("pause", config, "--topic", paused, "--reason", "CHG-117", *PATIENT))
        ok(run("limit", config, "--records", RATE, *PATIENT))
        wait_until(lambda: shown()["source_offset"] == 10, START_SECONDS)
        kill_tree(active.pid)
        for topic in (paused, other):
            send_records(clusters[0], topic, numbered(10, 10 + SENT))
        wait_until(lambda: have(10 + SENT, other), TAKEOVER_SECONDS)
        stands = have(10, paused)
        row = shown()
        resumed = ok(run("resume", config, "--topic", paused, *PATIENT)).output
        wait_until(lambda: have(10 + SENT, paused), TAKEOVER_SECONDS)
        standby.stop()

    assert stands
    assert (row["state"], row["source_offset"], row["lag"]) == ("paused", 10, SENT)
    assert "in force by" in resumed
    for topic in (paused, other):
        assert numbers(clusters[1], f"{flow.source}.{topic}") == [*range(10 + SENT)]
    times = [each.at_ms for each in sent_to(clusters[1], f"{flow.source}.{other}")][10:]
    assert times[-1] - times[0] > 500 * SENT / RATE, "in half the time that the limit asks for"
    state = tmp_path / "state"
    changes = stored(state, "changes", f"flow = '{flow}'", "number")
    assert [change.number for change in changes] == [1, 2, 3]
    kinds = [event.kind for event in stored(state, "events", f"flow = '{flow}'")]
    assert kinds.count("limited") == 2, "each process says it of the flow that it has"
    assert {*kinds} == {"changed", "limited"}


@pytest.mark.guarantee
def test_an_owner_that_was_cut_off_gives_up_what_it_holds(
    clusters: Clusters, broker_settings: BrokerSettings, tmp_path: Path, topic_name: str
) -> None:
    """It has records for the target at the cut, and would write them as soon as that is healed."""
    with proxied_broker("B", tmp_path / "target", broker_settings) as (broker, proxy):
        pair = pair_of((clusters[0], broker), tmp_path, topic_name)
        text = pair.first.read_text()
        pair.first.write_text(text.replace(broker.bootstrap, proxy.bootstrap))
        with producing(pair), ExitStack() as stack:
            active, standby = active_and_standby(stack, pair)
            proxy.cut(loses=True)
            await_growth(pair, standby, TAKEOVER_SECONDS)
            await_line(active, "event=lease_lost", START_SECONDS)
            proxy.heal()
            await_line(active, "event=lease_awaited", START_SECONDS)
            await_growth(pair, standby, START_SECONDS)

        assert_all_copied_once(pair, tmp_path)


@pytest.mark.soak
def test_an_owner_that_does_not_stand_by_ends_when_it_goes_on_after_a_takeover(pair: Pair) -> None:
    with producing(pair), ExitStack() as stack:
        active = started(stack, pair.first)
        await_growth(pair, active, START_SECONDS)
        standby = started(stack, pair.second, "--standby")
        await_line(standby, "event=lease_awaited", START_SECONDS)
        signal_tree(active, signal.SIGSTOP)
        await_line(standby, "event=lease_held", TAKEOVER_SECONDS)
        signal_tree(active, signal.SIGCONT)
        wait_until(lambda: active.exit_code is not None, START_SECONDS)

    assert active.exit_code == LeaseError.exit_code
    assert "event=lease_lost" in active.log.read_text(errors="replace")


@pytest.mark.soak
def test_a_standby_on_the_same_machine_goes_on_without_waiting_for_the_session(
    pair: Pair, tmp_path: Path
) -> None:
    with producing(pair), ExitStack() as stack:
        active = started(stack, pair.second)
        await_growth(pair, active, START_SECONDS)
        output = tmp_path / "standby.log"
        standby = start_mirror(pair.second, output, "--standby")
        stack.callback(standby.discard)
        await_line(standby, "event=lease_awaited", START_SECONDS)
        kill_tree(active.pid)
        ended = time.monotonic()
        await_growth(pair, standby, TAKEOVER_SECONDS)
        log.info("the standby went on after %.1f s", time.monotonic() - ended)
        text = output.read_text(errors="replace")
        waits = re.findall(r"event=lease_handover seconds=([\d.]+)", text)
        assert all(float(seconds) <= AFTER_DEATH for seconds in waits)
        assert len(waits) == text.count("event=lease_handover")

    assert_all_copied_once(pair, tmp_path)


@pytest.mark.soak
def test_of_two_that_are_started_one_runs_and_the_other_names_it(pair: Pair) -> None:
    with producing(pair), ExitStack() as stack:
        both = [started(stack, config) for config in (pair.first, pair.second)]
        wait_until(lambda: any(one.exit_code is not None for one in both), START_SECONDS)
        (refused,) = [one for one in both if one.exit_code is not None]
        (running,) = [one for one in both if one is not refused]
        await_growth(pair, running, START_SECONDS)

        assert refused.exit_code == LeaseError.exit_code
        text = refused.log.read_text(errors="replace")
        assert f"flow {pair.flow} is already running: {os.uname().nodename}, process " in text
