"""A broker in a container keeps the promises of one in a process. The engine is a stand-in."""

from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from replication.demo.brokers import BrokerSettings
from tests.support.containers import INSTALL, ContainerBroker
from tests.support.engine import running_engine

pytestmark = pytest.mark.cluster


def test_it_comes_back_on_its_port_with_its_data_after_a_kill_and_a_stop(
    tmp_path: Path, broker_settings: BrokerSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("testcontainers", reason=INSTALL)
    config = pytest.importorskip("testcontainers.core.config").testcontainers_config
    monkeypatch.setattr(config, "ryuk_disabled", True)
    socket = tmp_path / "docker.sock"
    monkeypatch.setenv("DOCKER_HOST", f"unix://{socket}")

    with running_engine(socket, tmp_path / "engine", broker_settings) as engine:
        broker = ContainerBroker("A", tmp_path / "A", broker_settings.properties)
        broker.start()
        bootstrap = broker.bootstrap
        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.create_topics([NewTopic("kept", 1, 1)])["kept"].result(30)
        broker.kill()
        was_running = broker.is_running
        broker.start()
        after_a_kill = admin.list_topics(timeout=30).topics
        broker.restart()
        after_a_stop = admin.list_topics(timeout=30).topics
        broker.stop()
        (container,) = engine.containers.values()

    port = bootstrap.rpartition(":")[2]
    assert container.ports == {f"{port}/tcp": [{"HostIp": "127.0.0.1", "HostPort": port}]}
    assert (was_running, broker.bootstrap) == (False, bootstrap)
    assert "kept" in after_a_kill
    assert "kept" in after_a_stop
    assert broker.log.read_bytes() == (container.folder / "log").read_bytes()
