"""How many requests of each kind a broker has answered, from its own metrics.

The JDK's jcmd lets a running broker serve its metrics on a loopback port; Kafka's JmxTool reads
them. That costs the broker a little CPU, and the contender none.
"""

import os
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from replication.config.home import home
from replication.demo.brokers import HOST, Broker, free_port

BEANS: Final = "kafka.network:type=RequestMetrics,name=RequestsPerSec,request=*,*"
LINE: Final = re.compile(r"\brequest=(\w+)\b.*:Count=(\d+)$", re.MULTILINE)
TIMEOUT_SECONDS: Final = 60.0
# Records, leases and Connect's groups; and what brokers send to each other. The rest is
# administration: topics, partitions, offsets, settings, groups.
NO_ADMINISTRATION: Final = frozenset(
    {
        *("Produce", "Fetch", "InitProducerId", "ApiVersions", "Heartbeat", "JoinGroup"),
        *("SyncGroup", "LeaveGroup", "ConsumerGroupHeartbeat", "OffsetCommit"),
        *("BrokerHeartbeat", "BrokerRegistration", "FetchSnapshot", "AlterPartition", "Vote"),
        *("BeginQuorumEpoch", "EndQuorumEpoch", "ControllerRegistration", "Envelope"),
        *("AllocateProducerIds", "FetchFollower", "FetchConsumer", "ListOffsetsFollower"),
    }
)


class RequestError(Exception):
    """The metrics of a broker cannot be read; the text has what the tool said."""


class RequestCounts:
    """The requests of some brokers, kind by kind.

    Raises:
        RequestError: A broker does not serve its metrics.
    """

    def __init__(self, brokers: Sequence[Broker]) -> None:
        self._ports = [_serve_metrics(broker) for broker in brokers]

    def administration(self) -> Counter[str]:
        """The number of each kind since the brokers' start, without `NO_ADMINISTRATION`."""
        counts = Counter[str]()
        for port in self._ports:
            counts.update(parsed(_jmx(port)))
        return Counter({kind: n for kind, n in counts.items() if kind not in NO_ADMINISTRATION})


def parsed(text: str) -> Counter[str]:
    """Sums what JmxTool prints, over the versions of each kind of request."""
    counts = Counter[str]()
    for kind, count in LINE.findall(text):
        counts[kind] += int(count)
    return counts


def _serve_metrics(broker: Broker) -> int:
    """The port on which *broker* serves its metrics from now on."""
    port = free_port()
    agent = ["authenticate=false", "ssl=false"]
    options = [f"jmxremote.{option}" for option in (f"port={port}", f"host={HOST}", *agent)]
    _run([_java("jcmd"), str(broker.pid), "ManagementAgent.start", *options])
    return port


def _jmx(port: int) -> str:
    jars = home() / "jars" / "kafka"
    return _run(
        [
            *(_java("java"), "-Xshare:auto", "-XX:TieredStopAtLevel=1"),
            *("-cp", f"{jars}/*", "org.apache.kafka.tools.JmxTool"),
            *("--jmx-url", f"service:jmx:rmi:///jndi/rmi://{HOST}:{port}/jmxrmi"),
            *("--object-name", BEANS, "--attributes", "Count"),
            *("--one-time=true", "--report-format", "properties"),
        ]
    )


def _java(program: str) -> str:
    folder = os.environ.get("JAVA_HOME")
    return str(Path(folder, "bin", program)) if folder else shutil.which(program) or program


def _run(command: Sequence[str]) -> str:
    name = Path(command[0]).name
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=TIMEOUT_SECONDS
        )
    except subprocess.TimeoutExpired:
        raise RequestError(f"{name} did not end within {TIMEOUT_SECONDS:g} s") from None
    if done.returncode:
        said = (done.stderr or done.stdout).strip()[-500:]
        raise RequestError(f"{name} ended with {done.returncode}: {said}")
    return done.stdout
