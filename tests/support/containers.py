"""Brokers in containers of the official Kafka image: ``REPLICATION_TEST_BROKERS=docker``.

testcontainers removes the containers when pytest ends, even if it is killed.
"""

import gc
import os
import signal
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from replication.demo.brokers import DEFAULTS, HOST, QUICK_START, STOP_TIMEOUT_SECONDS, Broker
from replication.demo.brokers import BrokerSettings as Settings
from replication.errors import ClusterError

VARIABLE: Final = "REPLICATION_TEST_BROKERS"
IMAGE: Final = "apache/kafka:4.3.1"
DEFAULT_SOCKET: Final = "unix:///var/run/docker.sock"
INSTALL: Final = f"{VARIABLE}=docker ./tests/run.sh installs testcontainers"
CONTROLLER_PORT: Final = 29093
HEAP_MB: Final = 384


def in_containers() -> bool:
    """Whether the tests' shared brokers run in containers.

    Raises:
        pytest.UsageError: The variable has another value than ``docker``.
    """
    value = os.environ.get(VARIABLE, "")
    if value not in ("", "docker"):
        raise pytest.UsageError(
            f"{VARIABLE}={value} is unknown; write docker, or leave it out for brokers as processes"
        )
    return value == "docker"


def check_engine() -> None:
    """Asks the container engine for an answer.

    Raises:
        pytest.UsageError: None answers, or its Python client is not installed.
    """
    try:
        from docker.errors import DockerException  # noqa: PLC0415 - not installed by default
        from testcontainers.core.docker_client import (  # noqa: PLC0415
            DockerClient,
            get_docker_host,
        )
    except ImportError as error:
        raise pytest.UsageError(
            f"{VARIABLE}=docker needs testcontainers ({error}): "
            "./tests/run.sh or ./spark-submit.sh --setup docker installs it"
        ) from None
    reason = ""
    try:
        DockerClient().client.ping()
    except (DockerException, OSError) as error:
        reason = one_line(error)
    if reason:
        _close_what_the_client_left_open()
        raise pytest.UsageError(
            f"{VARIABLE}=docker: no container engine answers at "
            f"{get_docker_host() or DEFAULT_SOCKET} ({reason}); start one, set "
            f"DOCKER_HOST to its socket, or leave out {VARIABLE} for brokers as processes"
        )


class ContainerBroker(Broker):
    """A `Broker` whose process is in a container. It keeps port and data across restarts.

    Its port is the same inside and outside, because the broker connects to itself there, too.

    Args:
        alias: The cluster's name, for errors.
        folder: For ``broker.log``.
        properties: Broker properties on top of ``DEFAULTS``.
    """

    def __init__(self, alias: str, folder: Path, properties: Mapping[str, str]) -> None:
        super().__init__(alias, folder, Settings(jars=Path(), properties=properties))
        from testcontainers.core.container import DockerContainer  # noqa: PLC0415

        with self._explained():
            self._container = DockerContainer(IMAGE)

    @property
    def is_running(self) -> bool:
        """Whether the container is running; the broker may not answer yet."""
        self._container.reload()
        return str(self._container.status) == "running"

    def _launch(self) -> None:
        port, _ = self._ports or (0, 0)
        with self._explained():
            if self._container.status == "not_started":
                variables = environment(port, self.cluster_id, self._settings.properties)
                self._container.ports[f"{port}/tcp"] = (HOST, port)  # not on every interface
                self._container.with_envs(**variables).start()
            else:
                self._container.get_wrapped_container().start()

    def _end(self, how: signal.Signals) -> None:
        if self._container.status == "not_started":
            return
        container = self._container.get_wrapped_container()
        with self._explained():
            if how == signal.SIGKILL and self.is_running:
                container.kill()
                container.wait()
            container.stop(timeout=int(STOP_TIMEOUT_SECONDS))
            self.folder.mkdir(parents=True, exist_ok=True)
            self.log.write_bytes(container.logs())

    @contextmanager
    def _explained(self) -> Iterator[None]:
        from docker.errors import DockerException  # noqa: PLC0415

        try:
            yield
        except (DockerException, OSError) as error:
            raise ClusterError(
                f"cluster {self.alias}: the container engine failed on a container of {IMAGE}: "
                f"{one_line(error)}; see that `docker run --rm {IMAGE}` works"
            ) from error


def environment(port: int, cluster_id: str, properties: Mapping[str, str]) -> dict[str, str]:
    """What the image makes ``server.properties`` of, and the options of its JVM."""
    own = {
        **DEFAULTS,
        "controller.quorum.voters": f"1@localhost:{CONTROLLER_PORT}",
        "listeners": f"PLAINTEXT://0.0.0.0:{port},CONTROLLER://localhost:{CONTROLLER_PORT}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        **properties,
    }
    return {
        "CLUSTER_ID": cluster_id,
        "KAFKA_HEAP_OPTS": f"-Xmx{HEAP_MB}m",
        "KAFKA_JVM_PERFORMANCE_OPTS": " ".join(QUICK_START),
        **{_variable(key): value for key, value in own.items()},
    }


def _variable(key: str) -> str:
    """The name under which the image reads the broker property *key*."""
    return f"KAFKA_{key.replace('_', '__').replace('-', '___').replace('.', '_').upper()}"


def _close_what_the_client_left_open() -> None:
    # docker's client, when it fails to connect, leaves a socket, whose warning would end pytest
    # with a stack trace.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


def one_line(error: Exception) -> str:
    """The text of *error* without line ends."""
    return " ".join(str(error).split())
