"""What the benchmark programs share: their brokers, how they end, and the file of their figures."""

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from rich.console import Console

from replication.config.home import home
from replication.demo.brokers import HOST, Broker, BrokerSettings, free_port, running, two_clusters
from replication.errors import ReplicationError
from tests.bench.latency import LatencyError
from tests.bench.requests import RequestError
from tests.support.distance import FarBroker, Way
from tests.support.local import REPOSITORY, Clusters
from tests.support.program import new_folder_name
from tests.support.proxy import broker_with_listener
from tests.support.running_process import ProcessError

BROKER_HEAP_MB: Final = 1024  # the default of Kafka's own script
# Frees the space of a race for the next one.
BROKER_PROPERTIES: Final = {"log.segment.delete.delay.ms": "1000"}
BUSY_LOAD: Final = 0.5
FAILURES: Final = (ProcessError, LatencyError, RequestError, ReplicationError)
"""What ends a measurement, but not the program."""


class Bench:
    """One run of a benchmark program.

    Args:
        name: Of the program, for its folder.
        options: What it was called with; goes into the file.
        console: For its tables.
    """

    def __init__(self, name: str, options: argparse.Namespace, console: Console) -> None:
        folder = new_folder_name("bench")
        self.folder = folder.with_name(f"{folder.name}-{name}")
        self.console, self._settings = console, vars(options)
        self._load_before = os.getloadavg()[0]
        if self._load_before > BUSY_LOAD:
            console.print(
                f"the machine is busy (load average {self._load_before:.1f}): expect noise"
            )

    @contextmanager
    def brokers(self, heap_mb: int = BROKER_HEAP_MB) -> Iterator[Clusters]:
        """Two clusters for the block. Their data is deleted at its end, their logs stay."""
        with self._emptied() as folder, two_clusters(folder, _settings(heap_mb)) as clusters:
            yield clusters

    @contextmanager
    def brokers_apart(self, far: str, way: Way) -> Iterator[tuple[Clusters, tuple[str, str]]]:
        """The same, and the addresses by which contenders know them: one is at the end of *way*.

        Args:
            far: ``source`` or ``target``.
            way: Between that one and the contenders.
        """
        behind = free_port()
        with self._emptied() as folder, FarBroker(behind, way) as proxy:
            second = f"{HOST}:{behind}"
            settings = _settings(BROKER_HEAP_MB)
            distant = broker_with_listener("far", folder / "far", settings, second, proxy.bootstrap)
            near = Broker("near", folder / "near", settings)
            with running(distant, near):
                if far == "source":
                    yield (distant, near), (proxy.bootstrap, near.bootstrap)
                else:
                    yield (near, distant), (near.bootstrap, proxy.bootstrap)

    @contextmanager
    def _emptied(self) -> Iterator[Path]:
        """Yields the folder of the brokers, whose data is deleted at the end."""
        folder = self.folder / "brokers"
        try:
            yield folder
        finally:
            for data in folder.glob("*/data"):
                shutil.rmtree(data, ignore_errors=True)

    def write(self, results: Sequence[Mapping[str, object]]) -> Path:
        """Writes the file: the options, the machine, and *results*."""
        document = {
            "settings": {**self._settings, "load_before": self._load_before},
            "machine": machine(),
            "results": list(results),
        }
        file = self.folder.with_suffix(".json")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(document, indent=2, default=str) + "\n")
        self.console.print(f"also in {file}; logs in {self.folder}", soft_wrap=True)
        return file


def exit_code(console: Console, measure: Callable[[], int]) -> int:
    """What *measure* returns; 1 if a contender or a broker failed, 130 after Ctrl-C."""
    try:
        return measure()
    except FAILURES as error:
        console.print(str(error), markup=False)
        return 1
    except KeyboardInterrupt:
        return 130


def machine() -> dict[str, object]:
    """What the figures depend on, apart from the options."""
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"],  # noqa: S607 - whichever git there is
        cwd=REPOSITORY, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return {
        "cores": os.cpu_count(),
        "load_average": os.getloadavg(),
        "platform": platform.platform(),
        "python": platform.python_version(),
        "commit": commit.stdout.strip(),
    }


def spread(values: Sequence[float], digits: int = 1) -> str:
    """The median of *values*, with the least and the greatest if there are several."""
    if not values:
        return "-"
    median = f"{statistics.median(values):,.{digits}f}"
    if len(values) == 1:
        return median
    return f"{median} ({min(values):,.{digits}f} to {max(values):,.{digits}f})"


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> str:
    """The ratio of the medians."""
    if not ours or not theirs or not statistics.median(theirs):
        return "-"
    return f"{statistics.median(ours) / statistics.median(theirs):.2f}"


def _settings(heap_mb: int) -> BrokerSettings:
    return BrokerSettings(
        jars=home() / "jars" / "kafka",
        heap_mb=heap_mb,
        jvm_options=(),
        properties=BROKER_PROPERTIES,
    )
