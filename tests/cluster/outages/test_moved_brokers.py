"""Brokers get new addresses while a flow runs; the file has the old ones and the new ones."""

from pathlib import Path

import pytest

from replication.demo.brokers import BrokerSettings, two_clusters
from replication.demo.ports import free_port
from tests.support.commands import start_mirror
from tests.support.mirror_files import write_config
from tests.support.topics import copied, fill, send
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.job, pytest.mark.timeout(600)]

FOUND_SECONDS = 45.0
"""Much more than the few seconds that it takes, and much less than the minutes that it took."""


def test_what_waits_is_copied_once_brokers_of_either_side_answer_at_a_new_address(
    broker_settings: BrokerSettings, tmp_path: Path, topic_name: str
) -> None:
    with two_clusters(tmp_path / "kafka", broker_settings) as clusters:
        fill(clusters[0], topic_name, 2, 100)
        ports = free_port(), free_port()
        own: dict[str, object] = {"replication.source": "shared"}
        for alias, broker, port in zip("AB", clusters, ports, strict=True):
            own[alias] = {"bootstrap.servers": f"{broker.bootstrap},127.0.0.1:{port}"}
        file = write_config(tmp_path, clusters, topic_name, own)
        mirror = start_mirror(file, log := tmp_path / "mirror.log")
        try:
            wait_until(lambda: copied(clusters, topic_name) == 100, 120)
            source, target = clusters
            source.move(ports[0])
            send(source, topic_name, 2, 100)
            wait_until(lambda: copied(clusters, topic_name) == 200, FOUND_SECONDS)
            target.move(ports[1])
            send(source, topic_name, 2, 100)
            wait_until(lambda: copied(clusters, topic_name) == 300, FOUND_SECONDS)
        finally:
            mirror.discard()

    assert "event=lease_lost" not in log.read_text()
