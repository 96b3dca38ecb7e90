"""What happens to a running mirror makes alerts fire in a real Prometheus, and its end clears them.

The rules are those of conf/monitoring with a second in place of minutes.
"""

from pathlib import Path

import pytest

from replication.demo.ports import free_port
from replication.figures.registry import PREFIX
from tests.support.driver import running, with_port
from tests.support.process_tree import kill_tree
from tests.support.prometheus import hasty, scraping
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.job]

SECONDS = 60.0


def test_a_killed_driver_is_down_until_it_runs_again(file: Path, tmp_path: Path) -> None:
    port = free_port()
    own = with_port(file, port)
    with scraping(tmp_path, port, rules_file=hasty(tmp_path)) as prometheus:
        with running(own, port) as mirror:
            is_running = f'{PREFIX}flow_state{{state="running"}} == 1'
            wait_until(lambda: prometheus.query(is_running), SECONDS)
            assert "DriverDown" not in prometheus.alerts()
            (series,) = prometheus.query(f"{PREFIX}info")
            assert series["metric"]["runs"] == "mirror"
            kill_tree(mirror.pid)
            wait_until(lambda: "DriverDown" in prometheus.alerts(), SECONDS)
        with running(own, port):
            wait_until(lambda: "DriverDown" not in prometheus.alerts(), SECONDS)
            wait_until(lambda: prometheus.query(is_running), SECONDS)
