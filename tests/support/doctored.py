"""What ``doctor`` says of a file, for tests that plant a fault and mend it."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from replication.config.file import load_config
from replication.demo.brokers import Broker
from replication.kafka.cluster import Cluster
from replication.model import NewTopic
from tests.support.cli import run
from tests.support.gate.clock import Limit
from tests.support.local import REPOSITORY
from tests.support.waiting import Late

REPLICATION = (sys.executable, "-m", "replication")
HEARD_SECONDS = 30
Row = dict[str, Any]


def look(file: Path, *options: str) -> tuple[int, list[Row]]:
    """The exit code, and the rows that are not ok; the folder of a test may lie in /tmp."""
    result = run("doctor", file, "--json", *options)
    return _judged(result.exit_code, result.stdout)


def look_from(command: Sequence[str], file: Path) -> tuple[int, list[Row]]:
    """As `look`, by a process of its own that *command* starts: `prlimit` and its options."""
    done = _process([*command, *REPLICATION, "doctor", str(file), "--json"])
    assert done.stdout, done.stderr
    return _judged(done.returncode, done.stdout)


def start_from(command: Sequence[str], file: Path) -> "subprocess.CompletedProcess[str]":
    """What spark-submit.sh asks before a start, by a process that *command* starts."""
    return _process([*command, *REPLICATION, "slots", str(file), "--start"])


def _process(command: Sequence[str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)


def only(rows: list[Row]) -> Row:
    """The only row."""
    assert len(rows) == 1, rows
    return rows[0]


def problem(rows: list[Row]) -> Row:
    """The only row that keeps a start from running."""
    return only([row for row in rows if row["verdict"] == "problem"])


def assert_healthy(file: Path) -> None:
    """Asserts that nothing is found, as soon as the brokers have heard of what was changed."""
    limit = Limit(HEARD_SECONDS)
    while (found := look(file)) != (0, []):
        if limit.is_over:
            raise Late(f"still found: {found}", limit)


def await_fault(file: Path) -> tuple[int, list[Row]]:
    """As `look`, as soon as something is found: brokers hear of a change a moment later."""
    limit = Limit(HEARD_SECONDS)
    while (found := look(file)) == (0, []):
        if limit.is_over:
            raise Late("nothing is found", limit)
    return found


def _judged(code: int, printed: str) -> tuple[int, list[Row]]:
    answer = json.loads(printed)
    assert answer["exit_code"] == code
    bad = [row for row in answer["findings"] if row["verdict"] != "ok"]
    assert all(row["next_step"] for row in bad if row["verdict"] != "unknown"), bad
    return code, [row for row in bad if "systems clean after days" not in str(row)]


def plant_internal_topic(file: Path, target: Broker, partitions: int, policy: str) -> str:
    """Creates the topic of checkpoints of the file's flow as nobody should; returns its name."""
    config = load_config(str(file)).flows[0]
    name = config.policy.checkpoints_topic(config.flow.source)
    with Cluster("B", {"bootstrap.servers": target.bootstrap}) as cluster:
        cluster.create_topics([NewTopic(name, partitions, 1, (("cleanup.policy", policy),))])
    return name
