"""``skip``: one record that cannot be copied is left out, and nothing else."""

import json
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import Result
from pyspark.sql import SparkSession

from replication.config.file import load_config
from replication.demo.workload import ProducedRecord, create_topic
from replication.errors import FlowError
from replication.figures.lag import steady
from replication.figures.status_store import Holder
from replication.flows.observe.flow_observer import FlowObserver
from replication.flows.publisher import FlowPublisher
from replication.model import Committed, Flow, Mode, TopicPartition
from replication.offsets.map import Exact, OffsetMap
from replication.offsets.runs import OffsetRun
from tests.support.cli import ok, run
from tests.support.events import kinds, kinds_of_topics
from tests.support.flows import RunningFlow, unique_flow
from tests.support.groups import commit
from tests.support.local import Clusters
from tests.support.mirror_files import write_config
from tests.support.numbered import numbered, numbers
from tests.support.stored import stored, stored_runs
from tests.support.topics import now_ms, send_records

pytestmark = [pytest.mark.cluster, pytest.mark.spark, pytest.mark.timeout(300)]

LIMIT = "max.message.bytes"
LARGE = ProducedRecord(partition=0, key=None, value=b"x" * 100_000, timestamp_ms=now_ms())
OLD = ProducedRecord(partition=0, key=None, value=b"50", timestamp_ms=now_ms() - 2 * 86_400_000)
TOO_LARGE = (LARGE, {LIMIT: "50000"})
TOO_OLD = (OLD, {"message.timestamp.before.max.ms": "86400000"})  # only the target can tell


class Bad:
    """A flow of a topic whose record 50 is too large for the target, and of a sound one."""

    def __init__(
        self,
        spark: SparkSession,
        folder: Path,
        clusters: Clusters,
        topic: str,
        *names: str,
        case: tuple[ProducedRecord, dict[str, str]] = TOO_LARGE,
        partitions: int = 1,
    ) -> None:
        record, settings = case
        self.source, self.target = clusters
        self.flow, self.spark, self.state = unique_flow(), spark, folder / "state"
        self.topic, self.sound = f"{topic}-bad", f"{topic}-sound"
        self.tp = TopicPartition(self.topic, 0)
        for name in names:
            create_topic(self.source.bootstrap, f"{topic}-{name}", partitions)
        create_topic(self.target.bootstrap, self.remote(self.topic), partitions, settings)
        send_records(self.source, self.topic, [*numbered(0, 50), record])
        more = {"refresh.topics.interval.seconds": 600, "sync.topic.configs.enabled": False}
        if case is TOO_OLD:
            # else some of what follows the record may be in a batch of its own, before the others
            more["producer.override.batch.size"] = 1
        self.file = write_config(folder, clusters, f"{topic}-.*", more, self.flow)
        self.config = load_config(str(self.file)).flows[0]

    def remote(self, topic: str) -> str:
        return f"{self.flow.source}.{topic}"

    def follow(self) -> None:
        """Sends what follows the record, of which nothing can be on its way to the target then."""
        send_records(self.source, self.topic, numbered(51, 60))

    def run(self, mode: Mode) -> RunningFlow:
        return RunningFlow(self.spark, self.state, self.config, mode)

    def skip(self, offset: int, *arguments: str, topic: str = "", partition: int = 0) -> Result:
        part = ("--topic", topic or self.topic, "--partition", partition, "--offset", offset)
        return run("skip", self.file, *part, *arguments)

    def copied(self) -> list[int]:
        return numbers(self.target, self.remote(self.topic))


def say(flow: RunningFlow, name: Flow) -> None:
    """Publishes how the flow is, as its process does every few seconds."""
    with closing(FlowPublisher(flow.config)) as publisher:
        observed = FlowObserver(flow.context, "mirror").look(steady(), None)
        publisher.publish(observed, {"records": Holder(1, "member", f"host/{name}/1")})


def test_a_running_flow_leaves_out_the_record_that_it_names_and_no_other(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    bad = Bad(spark, tmp_path, clusters, topic_name, "bad", "sound", partitions=2)
    send_records(bad.source, bad.sound, numbered(0, 10))
    commit(bad.source, f"g-{topic_name}", {bad.tp: Committed(55)})
    flow = bad.run("microbatch")
    flow.until(lambda: ("set-aside", bad.topic) in kinds_of_topics(flow.tables))
    # only now: a task that fails ends those of other partitions wherever they are
    send_records(bad.source, bad.topic, [replace(LARGE, partition=1)])
    bad.follow()
    flow.until(lambda: numbers(bad.target, bad.remote(bad.sound)) == [*range(10)])
    unsaid = bad.skip(50, "--execute")
    say(flow, bad.flow)

    refused = [
        bad.skip(offset, "--execute", topic=topic)
        for offset, topic in ((20, bad.topic), (51, bad.topic), (9, bad.sound), (0, "no-such"))
    ]
    (planned,) = json.loads(ok(bad.skip(50, "--json")).stdout)["partitions"]
    before = bad.copied()
    ok(bad.skip(0, "--execute", partition=1))  # which the condition does not name
    ok(bad.skip(50, "--execute", "--reason", "CHG-117"))
    flow.until(lambda: bad.copied() == [*range(50), *range(51, 60)])
    send_records(bad.source, bad.sound, numbered(10, 20))
    flow.until(lambda: numbers(bad.target, bad.remote(bad.sound)) == [*range(20)])
    again, undone = bad.skip(50, "--execute"), bad.skip(50, "--undo")
    flow.stop()

    assert [one.exit_code for one in (unsaid, *refused)] == [8] * 5, refused
    assert (planned["left_out"], planned["records"], before) == ([50, 51], 1, [*range(50)])
    assert (again.exit_code, undone.exit_code) == (8, 8), (again.output, undone.output)
    runs = stored_runs(flow.tables, bad.flow, bad.tp)
    assert OffsetRun(50, 51, 50, 0) in runs
    assert [OffsetMap(runs).translate(at) for at in (50, 51, 55)] == [
        Exact(50),
        Exact(50),
        Exact(54),
    ]
    found = kinds(flow.tables)
    assert [found.count(kind) for kind in ("jumped", "rejoined", "move-unused")] == [2, 1, 0]
    (jumped,) = stored(flow.tables, "events", "kind = 'jumped' AND partition = 0")
    assert (jumped.topic, jumped.offset_from, jumped.offset_until) == (bad.topic, 50, 51)
    (requested,) = stored(flow.tables, "events", "kind = 'requested' AND partition = 0")
    assert requested.text.endswith(": skip offset 50: CHG-117")


@pytest.mark.parametrize("case", [TOO_LARGE, TOO_OLD], ids=["size", "time"])
def test_a_flow_that_its_only_topic_has_ended_goes_on_behind_the_record(
    spark: SparkSession,
    clusters: Clusters,
    tmp_path: Path,
    topic_name: str,
    case: tuple[ProducedRecord, dict[str, str]],
) -> None:
    bad = Bad(spark, tmp_path, clusters, topic_name, "bad", case=case)
    bad.follow()
    flow = bad.run("drain")
    with pytest.raises(FlowError) as ended:
        flow.join()
    if case is TOO_OLD:
        say(flow, bad.flow)
    behind = len(bad.copied()) - 50  # which were on their way when the target rejected the record
    shown = ok(bad.skip(50))
    refused = [bad.skip(offset, "--execute").exit_code for offset in (0, 49, 51, 59, 1000)]
    ok(bad.skip(50, "--execute"))
    taken_back = ok(bad.skip(50, "--undo"))
    with pytest.raises(FlowError):
        bad.run("drain").join()
    ok(bad.skip(50, "--execute"))
    twice = bad.skip(50, "--execute")
    (request,) = (bad.state / "_control").glob("move-*")
    # another operator asks at the same time
    request.with_name(f"{request.name}0").write_bytes(request.read_bytes())
    flow = bad.run("drain")
    flow.join()
    late = bad.skip(50, "--execute")
    send_records(bad.source, bad.topic, numbered(60, 65))
    early = bad.skip(64)

    (command,) = [line for line in str(ended.value).splitlines() if "To leave it out" in line]
    part = f"--topic {bad.topic} --partition 0 --offset 50"
    assert command.endswith(f"python -m replication skip FILE --flow '{bad.flow}' {part}")
    assert refused == [8] * 5
    assert "is not skipped" in taken_back.output
    assert (twice.exit_code, "waits already" in twice.output) == (8, True)
    assert (f"has {behind} of the records" in shown.output.replace("\n", " ")) == (behind > 0)
    assert bad.copied() == [*range(50), *range(51, 51 + behind), *range(51, 60)]
    assert list((bad.state / "_control").glob("move-*")) == []
    assert late.exit_code == 8
    assert early.output.rstrip().endswith(
        f"{bad.tp} stands at offset 60, and a record before 64 waits"
    )
    events = kinds(flow.tables)
    assert (events.count("jumped"), events.count("move-unused")) == (1, 1)
