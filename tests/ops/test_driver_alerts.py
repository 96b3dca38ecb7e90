"""A driver whose flow fails, that hangs, is killed, and is not started again by its schedule.

`serve` runs beside it and is read by the same Prometheus, whose rules have seconds for minutes.
"""

import os
import signal
from pathlib import Path

import pytest

from replication.demo.brokers import free_port
from replication.demo.workload import create_topic
from replication.figures.registry import PREFIX
from replication.model import Flow
from tests.support.commands import replication, spark_submit
from tests.support.driver import running
from tests.support.flows import unique_flow
from tests.support.local import PYTHON, Clusters
from tests.support.mirror_files import write_config
from tests.support.process_tree import family, kill_tree, program
from tests.support.prometheus import hasty, scraping
from tests.support.running_process import RunningProcess
from tests.support.topics import delete_topic, fill
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.job]

SECONDS = 90.0
RECORDS = 20


@pytest.fixture
def flow() -> Flow:
    """A flow that no other test has."""
    return unique_flow()


@pytest.fixture
def ports() -> tuple[int, int]:
    """Those of the driver and of `serve`."""
    return free_port(), free_port()


@pytest.fixture
def file(
    clusters: Clusters, tmp_path: Path, topic_name: str, flow: Flow, ports: tuple[int, int]
) -> Path:
    """Both directions, with a topic each."""
    create_topic(clusters[0].bootstrap, topic_name, 1)
    fill(clusters[1], f"{topic_name}-back", 1, RECORDS)
    back = {"enabled": True, "topics": f"{topic_name}-back"}
    more = {
        f"{flow.target}->{flow.source}": back,
        "metrics.port": ports[0],
        "rest.port": ports[1],
        "status.publish.interval.seconds": 1,
        "refresh.topics.interval.seconds": 2,
    }
    return write_config(tmp_path, clusters, topic_name, more, flow)


def test_what_happens_to_a_driver_is_alerted(
    clusters: Clusters,
    file: Path,
    tmp_path: Path,
    topic_name: str,
    flow: Flow,
    ports: tuple[int, int],
) -> None:
    there, back = f'source="{flow.source}"', f'source="{flow.target}"'
    serve = [str(PYTHON), "-m", "replication", "serve", str(file)]
    with (
        RunningProcess("serve", serve, tmp_path / "serve.log"),
        scraping(tmp_path, *ports, rules_file=hasty(tmp_path)) as prometheus,
    ):

        def fires(alert: str, **labels: str) -> None:
            wait_until(lambda: prometheus.fires(alert, **labels), SECONDS)

        def clears(alert: str, **labels: str) -> None:
            wait_until(lambda: not prometheus.fires(alert, **labels), SECONDS)

        driver, page = (f"127.0.0.1:{port}" for port in ports)
        with running(file, ports[0]) as mirror:
            state = f'{PREFIX}flow_state{{state="running",instance="{driver}"}} == 1'
            wait_until(lambda: len(prometheus.query(state)) == 2, SECONDS)
            copied = f'{PREFIX}records_total{{{back},instance="{driver}"}}'
            wait_until(lambda: prometheus.value(copied) == RECORDS, SECONDS)
            known = f'{PREFIX}flow_state{{{there},state="running",instance="{page}"}} == 1'
            wait_until(lambda: prometheus.query(known), SECONDS)
            (series,) = prometheus.query(f'{PREFIX}info{{{there},instance="{driver}"}}')
            assert series["metric"]["runs"] == "mirror"
            ours = {"DriverDown", "FlowFailed", "FlowSilent", "DrainOverdue"}
            assert not ours & prometheus.alerts().keys()

            delete_topic(clusters[1], f"{topic_name}-back")
            fill(clusters[1], f"{topic_name}-back", 1, RECORDS // 2)
            fires("FlowFailed", source=flow.target)
            shown = replication("status", file, "--flow", f"{flow.target}->{flow.source}")
            assert "accept FILE" in shown.stdout

            (jvm,) = [pid for pid in family(mirror.pid) if program(pid) == "java"]
            os.kill(jvm, signal.SIGSTOP)
            fires("FlowSilent", source=flow.source)
            os.kill(jvm, signal.SIGCONT)
            clears("FlowSilent", source=flow.source)

            kill_tree(mirror.pid)
            fires("DriverDown", instance=driver)
            fires("FlowSilent", source=flow.source)  # which `serve` knows alone now
        accepting = ("--topic", f"{topic_name}-back", "--from", "earliest", "--execute")
        name = ("--flow", f"{flow.target}->{flow.source}")
        assert replication("accept", file, *name, *accepting).returncode == 0
        drained = spark_submit(file, "--mode", "drain")
        assert drained.returncode == 0, drained.stdout + drained.stderr
        fires("DrainOverdue", source=flow.source)
        clears("FlowSilent", source=flow.source)
        clears("FlowFailed")
        with running(file, ports[0]):
            clears("DriverDown")
            clears("DrainOverdue")
            wait_until(lambda: len(prometheus.query(state)) == 2, SECONDS)
        # it was stopped: for as long as nothing answers, nobody is called
        is_down = f'max_over_time(up{{instance="{driver}"}}[5s]) == 0'
        wait_until(lambda: prometheus.query(is_down), SECONDS)
        assert not prometheus.fires("DriverDown", instance=driver)
