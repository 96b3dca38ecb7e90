"""A transform takes long for each record of a topic: others, ``status`` and ``stop`` go on."""

import json
from itertools import repeat
from pathlib import Path

import pytest

from replication.demo.topic_log import log_ends
from replication.demo.workload import ProducedRecord
from tests.support.commands import replication, start_mirror
from tests.support.flows import unique_flow
from tests.support.local import Clusters
from tests.support.mirror_files import write_config
from tests.support.topics import fill, now_ms, send, send_records
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.spark, pytest.mark.job, pytest.mark.timeout(600)]

PATTERN = r"r'^(a+)+b\1$'"
LONG = b"a" * 23 + b"!"  # tens of millions of looks: not yet too many
WAITING = 2000
WAIT_SECONDS = 60.0


def test_the_neighbour_status_and_stop_go_on_while_a_pattern_matches(
    clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    source, flow = clusters[0], unique_flow()
    both = {name: f"{topic_name}-{name}" for name in ("slow", "other")}
    for topic in both.values():
        fill(source, topic, 1, 1)
    transform = {
        "replication.transforms": "slow",
        "replication.transforms.slow.topics": both["slow"],
        "replication.transforms.slow.filter": f"cast(value as string) not rlike {PATTERN}",
        "replication.mode": "realtime",
    }
    config = write_config(tmp_path, clusters, f"{topic_name}-.*", transform, flow)
    record = ProducedRecord(partition=0, key=b"k", value=LONG, timestamp_ms=now_ms())

    def there(name: str) -> int:
        remote = f"{flow.source}.{both[name]}"
        return log_ends(clusters[1].bootstrap, [remote])[remote]

    job = start_mirror(config, tmp_path / "log")
    try:
        wait_until(lambda: there("slow") == there("other") == 1, WAIT_SECONDS)
        send_records(source, both["slow"], repeat(record, WAITING))
        wait_until(lambda: there("slow") > 1, WAIT_SECONDS)
        send(source, both["other"], 1, 100)
        wait_until(lambda: there("other") == 101, WAIT_SECONDS)
        status = replication("status", config, "--json")
        stop = replication("stop", config)
        wait_until(lambda: job.exit_code is not None, WAIT_SECONDS)
        at_the_end = there("slow")
    finally:
        job.discard()

    job.stop()  # raises if it had not ended with exit code 0
    assert at_the_end < WAITING, "it was not in the middle of them"
    (shown,) = json.loads(status.stdout)["flows"]
    assert shown["state"] == "running", status.stderr
    assert stop.returncode == 0, stop.stderr
