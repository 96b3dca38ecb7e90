"""What the demo prints: its steps, the table of findings, and how to connect."""

import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from replication.demo.brokers import Broker
from replication.demo.findings import Finding
from replication.demo.latency import percentile
from replication.model import Flow

PERCENTILES = (0.5, 0.99, 0.999)


class Screen:
    """Prints one line for each step; a terminal shows a spinner with progress."""

    def __init__(self, console: Console) -> None:
        self.console = console

    def say(self, text: str) -> None:
        """Prints *text* without breaking lines longer than the screen."""
        self.console.print(text, soft_wrap=True, highlight=False)

    @contextmanager
    def step(self, text: str) -> Iterator[Callable[[str], None]]:
        """Prints how long the block took; yields a function that shows its progress."""
        started = time.monotonic()
        if self.console.is_terminal:
            with self.console.status(text) as status:
                yield lambda progress: status.update(f"{text}: {progress}")
        else:
            yield lambda _: None  # a log file needs no progress
        self.say(f"{text}: done in {time.monotonic() - started:.1f} s")


def show(screen: Screen, flow: Flow, findings: Sequence[Finding]) -> None:
    """Prints the table of findings, every difference, and the verdict in one line."""
    screen.console.print(_table(flow, findings))
    screen.say(
        "Latency is measured from the producer to the target. For payments it includes the wait "
        "for the commit of the transaction."
    )
    for finding in findings:
        if not finding.is_right:
            text = escape(finding.wrong or str(finding.report))
            screen.say(f"[red]{finding.report.topic}[/]: {text}")
    records = sum(finding.report.source_records for finding in findings)
    unrecorded = sum(finding.unrecorded for finding in findings)
    recorded = "every record" if not unrecorded else f"the {records - unrecorded} it covers by now"
    if all(finding.is_right for finding in findings):
        screen.say(
            f"[green]Equal[/]: {records} records on both sides have the same key, value, headers, "
            f"timestamp, partition and order. The offset map is right for {recorded}."
        )
    else:
        screen.say("[red]Different[/]: see above.")


def _table(flow: Flow, findings: Sequence[Finding]) -> Table:
    table = Table(title=str(flow))
    table.add_column("topic")
    for heading in (f"records on {flow.source}", f"on {flow.target}", "lag"):
        table.add_column(heading, justify="right")
    table.add_column("offset map")
    for heading in ("latency p50 ms", "p99", "p99.9"):
        table.add_column(heading, justify="right")
    table.add_column("verdict")
    for finding in findings:
        report = finding.report
        table.add_row(
            report.topic,
            str(report.source_records),
            str(report.target_records),
            str(max(0, report.source_records - report.target_records)),
            finding.offset_map,
            *(_ms(percentile(finding.latencies_ms, share)) for share in PERCENTILES),
            "[green]equal[/]" if finding.is_right else "[red]different[/]",
        )
    return table


def _ms(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.1f}"


def how_to_connect(
    screen: Screen, clusters: tuple[Broker, Broker], jars: Path, config: Path, page: str
) -> None:
    """Prints, for ``--keep``, what is running, how to use it and how to stop it."""
    source, target = clusters
    tools = f"java -cp '{jars}/*' org.apache.kafka.tools"
    write = f"{tools}.ConsoleProducer --bootstrap-server {source.bootstrap} --topic orders"
    read = f"{tools}.consumer.ConsoleConsumer --bootstrap-server {target.bootstrap}"
    for line in (
        "",
        "Clusters and mirror keep running:",
        f"  {source.alias}: bootstrap.servers {source.bootstrap}",
        f"  {target.alias}: bootstrap.servers {target.bootstrap}",
        f"The mirror's page: {page}",
        "Write a record and read the copies:",
        f"  echo hello | {write}",
        f"  {read} --topic {source.alias}.orders --from-beginning",
        "The mirror's configuration and log:",
        f"  {config}",
        f"  tail -f {config.parent / 'mirror.log'}",
        f"To stop: press Ctrl-C here, or run kill {os.getpid()}",
    ):
        screen.say(escape(line))
