"""Brokers get new addresses while a flow runs; the file has the old ones and the new ones."""

import socket
from pathlib import Path

import pytest

from replication.demo.brokers import Broker, BrokerSettings, free_port, running, two_clusters
from replication.errors import IdentityError
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
        mute = socket.create_server(("127.0.0.1", ports[0]))  # takes connections, never answers
        mirror = start_mirror(file, log := tmp_path / "mirror.log")
        try:
            wait_until(lambda: copied(clusters, topic_name) == 100, 120)
            source, target = clusters
            mute.close()
            source.move(ports[0])
            send(source, topic_name, 2, 100)
            wait_until(lambda: copied(clusters, topic_name) == 200, FOUND_SECONDS)
            target.move(ports[1])
            send(source, topic_name, 2, 100)
            wait_until(lambda: copied(clusters, topic_name) == 300, FOUND_SECONDS)
        finally:
            mirror.discard()

    assert "event=lease_lost" not in log.read_text()


def test_an_address_that_another_cluster_has_now_is_noticed_and_not_read_from(
    broker_settings: BrokerSettings, tmp_path: Path, topic_name: str
) -> None:
    with two_clusters(tmp_path / "kafka", broker_settings) as clusters:
        source, target = clusters
        fill(source, topic_name, 1, 100)
        old, new = source.bootstrap, free_port()
        own: dict[str, object] = {
            "replication.source": "shared",
            "A": {"bootstrap.servers": f"{old},127.0.0.1:{new}"},
        }
        file = write_config(tmp_path, clusters, topic_name, own)
        mirror = start_mirror(file, log := tmp_path / "mirror.log")
        try:
            wait_until(lambda: copied(clusters, topic_name) == 100, 120)
            source.stop()
            ports = iter((int(old.rpartition(":")[2]), free_port()))
            other = Broker("C", tmp_path / "C", broker_settings, ports=ports.__next__)
            with running(other):
                fill(other, topic_name, 1, 500)
                wait_until(lambda: mirror.exit_code is not None, 120)
                assert copied((other, target), topic_name) == 100
                assert mirror.exit_code == IdentityError.exit_code
                mirror.discard()
                source.move(new)
                mirror = start_mirror(file, tmp_path / "again.log")
                wait_until(lambda: mirror.exit_code is not None, 120)
        finally:
            mirror.discard()

        assert copied(clusters, topic_name) == 100
    for text in (log.read_text(), (tmp_path / "again.log").read_text()):
        assert other.cluster_id in text
    assert "lead to several Kafka clusters" in text
