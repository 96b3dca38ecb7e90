"""How long a command's first answer from a cluster takes by each kind of client, and its CPU.

A new process each time, as a command is, that opens an admin client and lists topics: by
confluent-kafka, by Java's client in a small JVM, and by that with its classes in an archive.
This takes half a minute:

    .local/venv/bin/python -m tests.bench.clients
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console

from replication.demo.brokers import Broker, BrokerSettings, running
from tests.support.local import jars

ROUNDS = 7
COMMAND = """
import os, sys, time
from pathlib import Path
from replication.kafka.calls import open_admin
java = sys.argv[2] == "java"
admin = open_admin({"bootstrap.servers": sys.argv[1]}, "bench", 30, prefers_java=java)
admin.listing(30)
admin.close()
ticks = 0
for child in Path("/proc/self/task", str(os.getpid()), "children").read_text().split():
    used = Path("/proc", child, "stat").read_text().rpartition(")")[2].split()[11:13]
    ticks += sum(map(int, used))
print(time.process_time() + ticks / os.sysconf("SC_CLK_TCK"))
"""


def measure(servers: str, client: str, java_options: str) -> tuple[float, float]:
    """Runs the command once; returns its seconds, and those of CPU."""
    env = {**os.environ, "JDK_JAVA_OPTIONS": java_options}
    command = [sys.executable, "-c", COMMAND, servers, client]
    started = time.monotonic()
    done = subprocess.run(command, check=True, env=env, stdout=subprocess.PIPE, text=True)
    return time.monotonic() - started, float(done.stdout)


def main() -> None:
    """Prints the medians."""
    with tempfile.TemporaryDirectory() as folder:
        archive = Path(folder, "classes.jsa")
        contenders = {
            "confluent-kafka": ("confluent", ""),
            "Java": ("java", ""),
            "Java, archived classes": ("java", f"-XX:SharedArchiveFile={archive}"),
        }
        broker = Broker(
            "A", Path(folder, "A"), BrokerSettings(jars=jars("kafka", override="KAFKA_JARS"))
        )
        with running(broker):
            measure(broker.bootstrap, "java", f"-XX:ArchiveClassesAtExit={archive}")
            rounds = [
                {name: measure(broker.bootstrap, *how) for name, how in contenders.items()}
                for _ in range(ROUNDS)
            ]
            broker.kill()
    console = Console()
    for name in contenders:
        seconds, cpu = (statistics.median(one[name][at] for one in rounds) for at in (0, 1))
        console.print(f"{name}: {seconds:.2f} s, {cpu:.2f} s of CPU")


if __name__ == "__main__":
    main()
