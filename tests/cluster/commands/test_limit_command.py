"""An operator limits a running mirror: the rate, the answers, and what the status says of it."""

from pathlib import Path

import pytest

from replication.demo.workload import ProducedRecord, create_topic
from tests.support.cli import ok, run
from tests.support.commands import start_mirror
from tests.support.gate.clock import Limit
from tests.support.local import Clusters, Until
from tests.support.mirror_files import write_config
from tests.support.rates import TIMES, between, mean, sent_to, worst_second
from tests.support.stored import stored
from tests.support.topics import copied, now_ms, send_records
from tests.support.waiting import measured

pytestmark = [pytest.mark.cluster, pytest.mark.job]

SIZE = 1_000
RECORDS = 30_000
RATE = 1_000_000
START_SECONDS = 90.0
COPY_SECONDS = 60.0
WORD_SECONDS = 20.0  # the flow says how it is every few seconds; its records suffice for longer


def test_a_running_mirror_is_limited_by_a_command_and_says_so(
    clusters: Clusters, tmp_path: Path, topic_name: str, until: Until
) -> None:
    """The file begins with 100 KB a second, so that records are left when the command comes."""
    create_topic(clusters[0].bootstrap, topic_name, 2)
    records = (ProducedRecord(partition=n % 2, key=None, value=b"x" * SIZE) for n in range(RECORDS))
    send_records(clusters[0], topic_name, records)
    settings = {**TIMES, "groups": topic_name, "replication.limit.bytes.per.second": "100KB"}
    file = write_config(tmp_path, clusters, topic_name, settings)
    mirror = start_mirror(file, tmp_path / "mirror.log")
    try:
        until(lambda: copied(clusters, topic_name) > 0, START_SECONDS)
        raised = ok(run("limit", file, "--bytes", "1MB", "--reason", "CHG-117"))
        began, from_ms = Limit(1), now_ms() + 1_000
        refused = run("limit", file, "--bytes", "1")
        at_raise = copied(clusters, topic_name)
        until(lambda: copied(clusters, topic_name) - at_raise >= 4 * RATE / SIZE, COPY_SECONDS)
        until_ms = now_ms()
        until(lambda: "limited to 1 MB/s, using " in ok(run("status", file)).stdout, WORD_SECONDS)
        ended = ok(run("limit", file, "--none"))
        until(lambda: copied(clusters, topic_name) == RECORDS, COPY_SECONDS)
        mirror.stop()
    finally:
        mirror.discard()

    raised_only = between(sent_to(clusters[1], f"A.{topic_name}"), from_ms, until_ms)
    assert "in force" in raised.output
    assert "in force" in ended.output
    assert refused.exit_code == 2
    assert "pause instead" in refused.output
    events = [event["text"] for event in stored(tmp_path / "state", "events")]
    assert [text for text in events if "limited" in text] == [
        "A->B is limited to 100 KB/s",
        "A->B is limited to 1 MB/s, and no longer to 100 KB/s",
        "A->B is no longer limited to 1 MB/s",
    ]
    with measured("the rates", began):
        assert worst_second(raised_only) <= RATE * 1.2
        assert RATE * 0.8 <= mean(raised_only, from_ms, until_ms) <= RATE * 1.05
