"""Embedded brokers keep their promises: port and data survive, nothing outlives its parent."""

import os
import socket
import subprocess
import sys
from dataclasses import replace
from itertools import chain
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from replication.config.flat import parse_properties
from replication.demo.brokers import (
    DEFAULTS,
    HOST,
    LOG4J,
    Broker,
    BrokerSettings,
    free_port,
    is_free,
)
from replication.errors import ClusterError
from tests.support.containers import environment
from tests.support.engine import setup_of
from tests.support.local import Clusters, Until

pytestmark = pytest.mark.cluster


def create(broker: Broker, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)


def topics(broker: Broker) -> set[str]:
    return set(AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics(timeout=30).topics)


def test_a_broker_comes_back_on_its_port_with_its_data_after_a_kill(own_broker: Broker) -> None:
    bootstrap = own_broker.bootstrap
    create(own_broker, "kept")
    own_broker.kill()
    assert not own_broker.is_running
    own_broker.start()

    assert own_broker.bootstrap == bootstrap
    assert "kept" in topics(own_broker)

    own_broker.restart()
    assert "kept" in topics(own_broker)


def test_the_image_of_kafka_makes_this_broker_of_what_a_container_gets(
    tmp_path: Path, broker_settings: BrokerSettings
) -> None:
    (tmp_path / "final").mkdir()
    properties = {**broker_settings.properties, "log.dirs": str(tmp_path / "data")}
    cluster_id = Broker("A", tmp_path, broker_settings).cluster_id
    log4j = tmp_path / "log4j2.properties"
    log4j.write_text(LOG4J)
    setup = setup_of(*(tmp_path / name for name in ("default", "mounted", "final")))

    subprocess.run(
        broker_settings.java(log4j, *setup),
        env={**os.environ, **environment(4711, cluster_id, properties)},
        check=True,
    )

    text = (tmp_path / "final" / "server.properties").read_text()
    made = {key: value for key, value, _ in parse_properties(text)}
    assert made.items() >= {**DEFAULTS, **properties}.items()
    assert made["advertised.listeners"] == "PLAINTEXT://127.0.0.1:4711"
    assert f"cluster.id={cluster_id}" in (tmp_path / "data" / "meta.properties").read_text()


def test_two_clusters_are_two(clusters: Clusters, topic_name: str) -> None:
    a, b = clusters
    create(a, topic_name)

    assert topic_name in topics(a)
    assert topic_name not in topics(b)


def test_a_failed_start_shows_value_and_log(
    tmp_path: Path, broker_settings: BrokerSettings
) -> None:
    settings = replace(broker_settings, properties={"num.io.threads": "none"})

    with pytest.raises(ClusterError) as caught:
        Broker("A", tmp_path, settings).start()

    assert "cluster A" in str(caught.value)
    assert str(tmp_path / "broker.log") in str(caught.value)
    assert "num.io.threads" in str(caught.value)


def test_a_taken_port_is_left_to_its_owner(tmp_path: Path, broker_settings: BrokerSettings) -> None:
    with socket.socket() as owner:
        owner.bind((HOST, 0))
        owner.listen()
        taken = owner.getsockname()[1]
        offered = chain([taken], iter(free_port, None))
        broker = Broker("A", tmp_path, broker_settings, ports=lambda: next(offered))
        try:
            broker.start()

            assert not broker.bootstrap.endswith(f":{taken}")
        finally:
            broker.stop()


PARENT = """
import signal, sys
from pathlib import Path
from replication.config.flat import parse_properties
from replication.demo.brokers import DEFAULTS, LOG4J, Broker, BrokerSettings

broker = Broker("A", Path(sys.argv[1]), BrokerSettings(jars=Path(sys.argv[2])))
broker.start()
print(broker.bootstrap, flush=True)
signal.pause()
"""


def test_a_broker_dies_with_its_parent_even_when_that_is_killed(
    tmp_path: Path, broker_settings: BrokerSettings, until: Until
) -> None:
    command = [sys.executable, "-c", PARENT, str(tmp_path), str(broker_settings.jars)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        host, port = parent.stdout.readline().strip().split(":")
        parent.kill()

    until(lambda: is_free(int(port)), 30)
    assert host == HOST
