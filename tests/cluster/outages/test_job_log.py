"""The log of real jobs, started as users start them: who reads it finds the cause in its last line.

Every job here writes JSON. `tests/unit/test_job_log.py` has the script's own lines and odd ends.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from replication.demo.brokers import Broker, free_port
from replication.demo.play import MirrorProcess
from tests.support.commands import spark_submit, start_mirror
from tests.support.local import Clusters
from tests.support.mirror_files import write_config
from tests.support.process_tree import arguments_of, family, kill
from tests.support.topics import copied, delete_topic, fill, send
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.job, pytest.mark.timeout(1200)]

JSON = ("--log-format", "json")
RECORDS = 100
WAIT_SECONDS = 120.0


def entries(text: str) -> list[dict[str, Any]]:
    """The lines of a log, each of which must be a JSON object."""
    found = [json.loads(line) for line in text.splitlines()]
    assert all(isinstance(one, dict) for one in found)
    return found


def events(log: Path) -> list[str]:
    """The events of a log that is being written."""
    whole = log.read_text().rpartition("\n")[0]
    return [one["event"] for one in entries(whole)]


@pytest.fixture
def job(
    clusters: Clusters, own_broker: Broker, tmp_path: Path, topic_name: str
) -> Iterator[MirrorProcess]:
    """A running job from a shared source to a broker of the test's own, with two topics."""
    both = (clusters[0], own_broker)
    for topic in (topic_name, f"{topic_name}-gone"):
        fill(clusters[0], topic, 2, RECORDS)
    config = write_config(tmp_path, both, f"{topic_name}.*")
    job = start_mirror(config, tmp_path / "log", *JSON, "--mode", "realtime")
    try:
        wait_until(lambda: copied(both, f"{topic_name}-gone") >= RECORDS, WAIT_SECONDS)
        yield job
    finally:
        job.discard()


def lines_of_clients(job: MirrorProcess) -> list[str]:
    """What Kafka's own clients have said."""
    logged = entries(job.log.read_text())
    of_kafka = "org.apache.kafka"
    return [one["text"] for one in logged if of_kafka in one.get("fields", {}).get("logger", "")]


def test_a_deleted_topic_and_a_dead_cluster_are_a_few_lines(
    job: MirrorProcess, clusters: Clusters, own_broker: Broker, topic_name: str
) -> None:
    delete_topic(clusters[0], f"{topic_name}-gone")
    wait_until(lambda: events(job.log).count("generation_started") == 2, WAIT_SECONDS)
    of_topic = len(lines_of_clients(job))

    own_broker.kill()
    wait_until(lambda: any("more lines like" in t for t in lines_of_clients(job)), WAIT_SECONDS)
    own_broker.start()
    send(clusters[0], topic_name, 2, RECORDS)
    wait_until(lambda: copied((clusters[0], own_broker), topic_name) >= 2 * RECORDS, WAIT_SECONDS)
    job.stop()

    said = entries(job.log.read_text())
    assert of_topic <= 6
    assert len(lines_of_clients(job)) <= 40, "of thousands"
    assert [one["event"] for one in said].count("record_dropped") <= 1
    summaries = [one["fields"] for one in said if one["event"] == "flow_summary"]
    (summary,) = [one for one in summaries if "ending" in one]  # the others come each minute
    assert summary["records"] >= 2 * RECORDS
    assert (summary["ending"], summary["topics_behind"]) == ("stopped", 0)
    assert (said[-1]["event"], said[-1]["fields"]["exit_code"]) == ("job_ended", 0)


def test_a_job_that_is_killed_says_so_last(job: MirrorProcess) -> None:
    others = [pid for pid in family(job.pid) if pid != job.pid]
    kill(pid for pid in others if "deploy.SparkSubmit" in arguments_of(pid))
    wait_until(lambda: job.exit_code is not None, WAIT_SECONDS)

    last = entries(job.log.read_text())[-1]
    assert job.exit_code == 137
    assert (last["level"], last["event"], last["fields"]) == (
        "ERROR",
        "job_ended",
        {"exit_code": 137},
    )
    assert "SIGKILL" in last["text"]


@pytest.mark.parametrize("arguments", [(), JSON], ids=["text", "json"])
def test_the_last_line_of_a_drain_without_a_target_is_the_cause(
    clusters: Clusters, tmp_path: Path, topic_name: str, arguments: tuple[str, ...]
) -> None:
    fill(clusters[0], topic_name, 1, 1)
    port = free_port()
    nowhere = {
        "B": {"bootstrap.servers": f"127.0.0.1:{port}", "admin.default.api.timeout.ms": 2000},
        "emit.heartbeats.enabled": False,
    }
    config = write_config(tmp_path, clusters, topic_name, nowhere)

    done = spark_submit(config, "--mode", "drain", *arguments)

    log = done.stderr if arguments else done.stdout
    last = log.splitlines()[-1]
    assert done.returncode == 3
    assert len((done.stdout + done.stderr).splitlines()) < 60
    if arguments:
        assert done.stdout == ""
        ended = entries(log)[-1]
        assert (ended["event"], ended["fields"]["exit_code"]) == ("job_ended", 3)
        last = ended["text"]
    assert "flow A->B: cluster B" in last
    assert f"127.0.0.1:{port}" in last


def test_a_wrong_file_is_one_line(tmp_path: Path, clusters: Clusters) -> None:
    config = write_config(tmp_path, clusters, "a", {"replication.mode": "sometimes"})

    done = spark_submit(config, *JSON)

    assert (done.returncode, done.stdout) == (2, "")
    (line,) = [one for one in entries(done.stderr) if one["event"] == "job_ended"]
    assert line == entries(done.stderr)[-1]
    assert "replication.mode" in line["text"]
