"""``move-position`` and ``reset-positions``: what the dry run says is what is lost or repeated."""

import json
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from pyspark.sql import SparkSession

from replication.config.file import load_config
from replication.demo.workload import create_topic, send_transactions
from replication.errors import GuardError
from replication.model import Committed, TopicPartition
from replication.offsets.map import Exact
from tests.support.cli import ok, run
from tests.support.commands import start_mirror
from tests.support.events import kinds
from tests.support.flows import RunningFlow
from tests.support.groups import commit
from tests.support.local import Clusters, Until
from tests.support.mirror_files import FLOW, write_config
from tests.support.numbered import drain, numbered, numbers, translations
from tests.support.process_tree import kill_tree, paused
from tests.support.stored import stored
from tests.support.topics import copied, delete_topic, fill, now_ms, send_records

pytestmark = [pytest.mark.cluster, pytest.mark.spark, pytest.mark.timeout(600)]


class Moved:
    """A flow of one topic, whose partition 0 has numbers, and the commands on it."""

    def __init__(
        self, spark: SparkSession, folder: Path, clusters: Clusters, topic: str, **source: str
    ) -> None:
        self.source, self.target = clusters
        more = {"A": {"bootstrap.servers": self.source.bootstrap, **source}}
        self.file = write_config(folder, clusters, topic, more)
        self.config = load_config(str(self.file)).flows[0]
        self.spark, self.state, self.topic = spark, folder / "state", topic
        self.first_ms, self._seen = now_ms() - 100_000, 0

    def send(self, start: int, end: int) -> None:
        send_records(self.source, self.topic, numbered(start, end, self.first_ms))

    def drain(self) -> list[int]:
        """Copies everything; returns what is new on the target."""
        self.flow = drain(self.spark, self.state, self.config)
        found = numbers(self.target, f"A.{self.topic}")
        before, self._seen = self._seen, len(found)
        return found[before:]

    def command(self, command: str, *arguments: str) -> Result:
        return run(command, self.file, "--topic", self.topic, *arguments)

    def move(self, to: str, *arguments: str) -> Result:
        return self.command("move-position", "--to", to, *arguments)

    def planned(self, to: str) -> dict[str, Any]:
        """What the dry run says of partition 0."""
        document = json.loads(ok(self.move(to, "--json")).stdout)
        assert document["execute"] is False
        (part,) = document["partitions"]
        return dict(part)

    def requests(self) -> list[Path]:
        folder = self.state / "_control"
        return sorted(folder.glob("move-*")) if folder.exists() else []

    def events(self) -> list[str]:
        return kinds(self.flow.tables)


@pytest.fixture
def moved(spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str) -> Moved:
    """A flow that has copied the numbers 0 to 99."""
    create_topic(clusters[0].bootstrap, topic_name, 1)
    found = Moved(spark, tmp_path, clusters, topic_name)
    found.send(0, 100)
    assert found.drain() == list(range(100))
    return found


def test_what_a_dry_run_counts_is_what_is_copied_again_or_left_out(moved: Moved) -> None:
    at_70 = datetime.fromtimestamp((moved.first_ms + 70) / 1000, timezone.utc).isoformat()
    back = {"-10": range(90, 100), "40": range(40, 100), "earliest": range(100)}
    for to, again in {**back, at_70: range(70, 100)}.items():
        part = moved.planned(to)
        assert (part["from"], part["to"], part["left_out"]) == (100, again.start, None)
        assert (part["copied_again"], part["records"]) == ([again.start, 100], len(again))
        assert moved.requests() == []
        ok(moved.move(to, "--execute", "--reason", "CHG-117"))
        assert moved.drain() == list(again), to

    moved.send(100, 120)
    part = moved.planned("+5")
    assert (part["left_out"], part["copied_again"], part["records"]) == ([100, 105], None, 5)
    ok(moved.move("+5", "--execute"))
    assert moved.drain() == list(range(105, 120))

    moved.send(120, 130)
    part = moved.planned("latest")
    assert (part["left_out"], part["records"]) == ([120, 130], 10)
    ok(moved.move("latest", "--execute"))
    assert moved.drain() == []

    reset = ok(moved.command("reset-positions", "--execute", "--json"))
    assert json.loads(reset.stdout)["partitions"][0]["copied_again"] == [0, 130]
    assert moved.drain() == list(range(130))
    end = copied((moved.source, moved.target), moved.topic)
    assert translations(moved.flow, moved.topic, 130, 120) == [Exact(end), Exact(end - 10)]
    assert moved.events() == ["requested", "jumped"] * 7
    first, *_ = stored(moved.flow.tables, "events", "kind = 'requested'")
    assert "CHG-117" in first.text
    assert moved.requests() == []


def test_records_are_counted_where_offsets_have_gaps(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    committed = {"consumer.isolation.level": "read_committed"}
    create_topic(clusters[0].bootstrap, topic_name, 1)
    moved = Moved(spark, tmp_path, clusters, topic_name, **committed)
    send_transactions(
        moved.source.bootstrap, topic_name, numbered(0, 60), records_each=5, abort_every=3
    )
    assert len(moved.drain()) == 40
    send_transactions(
        moved.source.bootstrap, topic_name, numbered(60, 90), records_each=5, abort_every=3
    )

    back, on = moved.planned("earliest"), moved.planned("latest")
    ok(moved.move("earliest", "--execute"))
    again = moved.drain()
    ahead = len(again) - back["records"]

    assert (back["copied_again"], back["records"]) == ([0, 72], 40)
    assert (on["left_out"], on["records"]) == ([72, 108], 20)
    assert ahead == on["records"]


def test_groups_whose_offset_means_another_one_are_named(moved: Moved) -> None:
    tp = TopicPartition(moved.topic, 0)
    for offset in (50, 95):
        commit(moved.source, f"{moved.topic}-{offset}", {tp: Committed(offset)})

    shown = json.loads(ok(moved.move("90", "--json")).stdout)
    text = ok(moved.move("90")).stdout

    (group,) = [each for each in shown["groups"] if each["topic"] == moved.topic]
    assert (group["group"], group["committed"]) == (f"{moved.topic}-95", 95)
    assert (group["before"]["offset"], group["after"]["offset"]) == (95, 105)
    assert "source offsets 90 to 99 are copied again" in text
    assert text.splitlines()[-1] == "dry run: nothing is moved; pass --execute to move"


def test_a_flow_that_runs_keeps_its_positions(moved: Moved, until: Until) -> None:
    flow = RunningFlow(moved.spark, moved.state, moved.config, "microbatch")
    moved.send(100, 110)
    flow.until(lambda: copied((moved.source, moved.target), moved.topic) == 110)

    refused = moved.move("earliest", "--execute")
    shown = json.loads(ok(run("positions", moved.file, "--json")).stdout)
    flow.stop()
    until(lambda: moved.move("earliest").exit_code == 0, 30)

    assert refused.exit_code == 4
    assert f"flow {FLOW} runs" in refused.stderr
    assert moved.requests() == []
    (row,) = [each for each in shown["positions"] if each["topic"] == moved.topic]
    assert row["source_log_end"] == 110


@pytest.fixture
def kept(moved: Moved) -> Iterator[tuple[Path, str]]:
    """A request to copy everything again, and what is in its file."""
    ok(moved.move("earliest", "--execute"))
    (file,) = moved.requests()
    yield file, file.read_text()
    assert moved.requests() == []


def test_a_position_that_has_moved_meanwhile_is_not_overwritten(
    moved: Moved, kept: tuple[Path, str]
) -> None:
    file, text = kept
    file.unlink()
    moved.send(100, 110)
    moved.drain()
    file.write_text(text)  # as if the process had begun before it was there

    assert moved.drain() == []

    assert moved.events() == ["requested", "move-unused"]
    (event,) = stored(moved.flow.tables, "events", "kind = 'move-unused'")
    assert (event.topic, event.partition, event.reaction) == (moved.topic, 0, "keep")
    assert "it is at source offset 110, target offset 110 now" in event.text


def test_a_request_that_a_killed_process_has_used_is_void(
    moved: Moved, kept: tuple[Path, str]
) -> None:
    file, text = kept
    first = moved.drain()
    ok(moved.move("earliest", "--execute"))
    (newer,) = moved.requests()
    newer_text = newer.read_text()
    second = moved.drain()

    file.write_text(text)  # as if the process had been killed before it removed them
    newer.write_text(newer_text)

    assert first == second == list(range(100))
    assert moved.drain() == []


def test_a_topic_that_was_created_again_goes_on_at_its_own_position(
    moved: Moved, kept: tuple[Path, str]
) -> None:
    assert kept
    delete_topic(moved.source, moved.topic)
    fill(moved.source, moved.topic, 1, 30)

    with pytest.raises(GuardError, match="created again"):
        moved.drain()

    moved.flow = RunningFlow(moved.spark, moved.state, moved.config, "drain")
    with pytest.raises(GuardError):
        moved.flow.join()
    assert moved.events().count("move-unused") == 1
    assert "jumped" not in moved.events()


def test_what_cannot_be_moved_is_named_and_nothing_is_moved(moved: Moved, tmp_path: Path) -> None:
    lines = tmp_path / "moves.csv"
    lines.write_text(f"{moved.topic},0,40\n{moved.topic},7,1\nnothing,0,1\n")
    wrong = tmp_path / "wrong.csv"
    wrong.write_text(f"{moved.topic},0,soon\n")

    beyond = moved.move("101", "--execute")
    file = run("move-position", moved.file, "--from-file", lines, "--execute")
    answers = [
        moved.move("soon"),
        run("move-position", moved.file, "--topic", moved.topic),
        run("move-position", moved.file, "--from-file", wrong),
        run("reset-positions", moved.file),
        run("move-position", moved.file, "--from-file", lines, "--partition", 0),
    ]

    assert (beyond.exit_code, file.exit_code) == (8, 8)
    assert "the source has offsets 0 to 100" in beyond.stderr
    assert f"{moved.topic}-7: there is no such partition" in file.stderr
    assert "topic nothing: it is not one of the flow's topics" in file.stderr
    assert [each.exit_code for each in answers] == [2] * 5
    assert moved.requests() == []


def test_the_positions_of_today_are_brought_back_by_their_own_json(
    moved: Moved, tmp_path: Path
) -> None:
    file = tmp_path / "before.json"
    file.write_text(ok(run("positions", moved.file, "--json")).stdout)
    moved.send(100, 130)
    moved.drain()

    ok(run("move-position", moved.file, "--from-file", file, "--execute"))
    waiting = json.loads(ok(run("positions", moved.file, "--json")).stdout)["positions"]
    planned = json.loads(ok(run("plan", moved.file, "--json")).stdout)

    assert waiting[0] | {"map_age_seconds": 0} == {
        "topic": moved.topic,
        "partition": 0,
        "source_offset": 130,
        "target_offset": 130,
        "source_log_end": 130,
        "lag": 0,
        "map_age_seconds": 0,
        "state": waiting[0]["state"],
        "reason": waiting[0]["reason"],
        "moves_to": 100,
    }
    (part,) = planned["flows"][0]["topics"][0]["partitions"]
    assert (part["offset"], part["origin"]) == (100, "decision")
    assert moved.drain() == list(range(100, 130))


@pytest.mark.job
def test_a_process_that_is_killed_before_the_use_leaves_it_to_the_next(
    moved: Moved, kept: tuple[Path, str], tmp_path: Path, until: Until
) -> None:
    file, _ = kept
    log, broker = tmp_path / "mirror.log", moved.source.pid
    assert broker is not None
    with paused([broker]):  # so that no position can be found yet
        mirror = start_mirror(moved.file, log, "--mode", "microbatch")

        def is_owner() -> bool:
            mirror.check()
            return "lease_held" in log.read_text()

        try:
            until(is_owner, 120)
        finally:
            kill_tree(mirror.pid)
            mirror.discard()
    assert file.exists()

    assert moved.drain() == list(range(100))
    assert moved.events() == ["requested", "jumped"]
