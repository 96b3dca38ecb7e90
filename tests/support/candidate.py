"""A process of its own that joins a lease's group, so that a test can kill, pause and resume it."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager

from replication.demo.brokers import Watchdog
from replication.kafka.jvm import kafka_jars
from tests.support.process_tree import family, kill

PROGRAM = """
import json, sys
from pathlib import Path
from replication.kafka.jvm import open_jvm
from replication.kafka.ownership import Member, Ownership

properties, group, name, jars = json.loads(sys.argv[1])
with open_jvm([Path(jar) for jar in jars]) as jvm:
    ownership = Ownership(jvm, properties, group, Member(name, name, is_quick=True))
    for question in sys.stdin:
        if question == "leave\\n":
            ownership.__exit__()
        print(ownership.state, ownership.owner, sep="\\t", flush=True)
"""


class Candidate(AbstractContextManager["Candidate"]):
    """A process that wants to be the owner. It ends with the block.

    Args:
        properties: Of its client.
        group: The lease's group.
        name: Its static member id, and its description.
    """

    def __init__(self, properties: Mapping[str, str], group: str, name: str) -> None:
        arguments = json.dumps([dict(properties), group, name, list(map(str, kafka_jars()))])
        self._process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._watchdog = Watchdog(self._process.pid, signal.SIGKILL)

    def __exit__(self, *_: object) -> None:
        self._watchdog.dismiss()
        self.kill()
        self._process.communicate()

    def ask(self, question: str = "") -> tuple[str, str]:
        """Its state and the owner's name, as it sees them."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{question}\n")
        self._process.stdin.flush()
        state, owner = self._process.stdout.readline().rstrip("\n").split("\t")
        return state, owner

    @property
    def state(self) -> str:
        """Its state."""
        return self.ask()[0]

    def leave(self) -> None:
        """Lets it leave the group in order."""
        self.ask("leave")

    def kill(self) -> float:
        """SIGKILL for the process and its JVM; returns the time of it."""
        kill(family(self._process.pid))
        return time.monotonic()

    def pause(self) -> float:
        """SIGSTOP for the process and its JVM; returns the time of it."""
        self._signal(signal.SIGSTOP)
        return time.monotonic()

    def resume(self) -> None:
        """SIGCONT for the process and its JVM."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        for pid in family(self._process.pid):
            os.kill(pid, number)
