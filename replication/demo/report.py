"""What the demo finds and shows: its steps, the table of findings, how to connect."""

import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from replication.demo.brokers import Broker
from replication.demo.compare import TopicReport
from replication.demo.paced import percentile
from replication.model import Flow, TopicPartition
from replication.offsets.map import Bounded, Exact, NoAnswer, OffsetMap, OffsetRun


class Screen:
    """Prints one line a step; on a terminal the step at hand turns and tells how far it is."""

    def __init__(self, console: Console) -> None:
        self.console = console

    def say(self, text: str) -> None:
        """One line, whole even where it is longer than the screen."""
        self.console.print(text, soft_wrap=True, highlight=False)

    @contextmanager
    def step(self, text: str) -> Iterator[Callable[[str], None]]:
        """Gives a function that tells how far the step is."""
        started = time.monotonic()
        if self.console.is_terminal:
            with self.console.status(text) as status:
                yield lambda far: status.update(f"{text}: {far}")
        else:
            yield lambda _: None  # a log file wants no progress
        self.say(f"{text}: done in {time.monotonic() - started:.1f} s")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What was found about one topic.

    Args:
        report: The comparison.
        runs: Runs of the offset map, all partitions.
        sparse: Those of them that are not dense.
        wrong: The first answer of the offset map that does not fit the records; None if all do.
        latencies_ms: Ascending.
    """

    report: TopicReport
    runs: int
    sparse: int
    wrong: str | None
    latencies_ms: Sequence[float]

    @property
    def is_right(self) -> bool:
        """Whether both sides are equal and the offset map is right."""
        return self.report.is_equal and self.wrong is None

    @property
    def offset_map(self) -> str:
        """The map in words."""
        runs = f"{self.runs} run{'s' * (self.runs != 1)}"
        return f"{self.sparse} of {runs} sparse" if self.sparse else f"dense, {runs}"


def findings(
    reports: Mapping[str, TopicReport],
    latencies_ms: Mapping[str, Sequence[float]],
    runs_of: Callable[[TopicPartition], Sequence[OffsetRun]],
) -> list[Finding]:
    """Puts together what is known of each topic, and holds the offset map against the records."""
    found = []
    for topic, report in reports.items():
        parts = [
            (part, runs_of(TopicPartition(topic, part.partition))) for part in report.partitions
        ]
        runs = [run for _, of_partition in parts for run in of_partition]
        wrong = (
            _wrong_answer(TopicPartition(topic, part.partition), part.offsets, of_partition)
            for part, of_partition in parts
        )
        found.append(
            Finding(
                report=report,
                runs=len(runs),
                sparse=sum(not run.is_dense for run in runs),
                wrong=next(filter(None, wrong), None),
                latencies_ms=latencies_ms.get(report.remote_topic, ()),
            )
        )
    return found


def _wrong_answer(
    tp: TopicPartition, offsets: Sequence[tuple[int, int]], runs: Sequence[OffsetRun]
) -> str | None:
    """The first record for which the map's answer would skip it, or re-read more than it says."""
    mapped = OffsetMap(runs)
    for upstream, downstream in offsets:
        answer = mapped.translate(upstream)
        match answer:
            case Exact(offset):
                right = offset == downstream
            case Bounded(offset, reread):
                right = offset <= downstream <= offset + reread
            case NoAnswer():
                right = False
            case _:  # beyond the map, while the mirror still runs
                right = answer.offset <= downstream
        if not right:
            return f"{tp}: upstream {upstream} is at {downstream}, the offset map says {answer}"
    return None


def show(screen: Screen, flow: Flow, found: Sequence[Finding]) -> None:
    """The table, and the verdict in one line."""
    table = Table(title=f"{flow}")
    table.add_column("topic")
    for heading in (f"records on {flow.source}", f"on {flow.target}", "lag"):
        table.add_column(heading, justify="right")
    table.add_column("offset map")
    for heading in ("latency p50 ms", "p99", "p99.9"):
        table.add_column(heading, justify="right")
    table.add_column("verdict")
    for it in found:
        report = it.report
        table.add_row(
            report.topic,
            str(report.source_records),
            str(report.target_records),
            str(max(0, report.source_records - report.target_records)),
            it.offset_map,
            *(_ms(percentile(it.latencies_ms, share)) for share in (0.5, 0.99, 0.999)),
            "[green]equal[/]" if it.is_right else "[red]different[/]",
        )
    screen.console.print(table)
    screen.say(
        "Latency is from produce to visible on the target; of payments it includes the wait for "
        "the commit of their transaction."
    )
    for it in found:
        if not it.is_right:
            screen.say(f"[red]{it.report.topic}[/]: {escape(it.wrong or str(it.report))}")
    records = sum(it.report.source_records for it in found)
    if all(it.is_right for it in found):
        screen.say(
            f"[green]Equal[/]: {records} records on both sides, the same in key, value, headers, "
            "timestamp, partition and order; the offset map was right for each of them."
        )
    else:
        screen.say("[red]Different[/]: see above.")


def _ms(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.1f}"


def how_to_connect(
    screen: Screen, flow: Flow, source: Broker, target: Broker, jars: Path, config: Path
) -> None:
    """For --keep: what runs where, how to talk to it, how to end it."""
    tools = f"java -cp '{jars}/*' org.apache.kafka.tools"
    write = f"{tools}.ConsoleProducer --bootstrap-server {source.bootstrap} --topic orders"
    read = f"{tools}.consumer.ConsoleConsumer --bootstrap-server {target.bootstrap}"
    for line in (
        "",
        "Clusters and mirror go on running:",
        f"  {flow.source}: bootstrap.servers {source.bootstrap}",
        f"  {flow.target}: bootstrap.servers {target.bootstrap}",
        "Write a record and read the copies:",
        f"  echo hello | {write}",
        f"  {read} --topic {flow.source}.orders --from-beginning",
        "The mirror's configuration and log:",
        f"  {config}",
        f"  tail -f {config.parent / 'mirror.log'}",
        f"To stop: Ctrl-C here, or kill {os.getpid()}",
    ):
        screen.say(escape(line))
