"""What a soak prints: a line for each fault, and two tables at the end."""

import time
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime, timezone
from statistics import median

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tests.soak.scene import Scene
from tests.soak.verdict import Verdict


@dataclass(slots=True)
class Report:
    """The console, and the pauses after each kind of fault."""

    console: Console
    pauses: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    started: float = field(default_factory=time.monotonic)

    def say(self, text: str) -> None:
        """Prints a line with the time of day."""
        at = datetime.now(timezone.utc)
        self.console.print(f"{at:%H:%M:%S} {escape(text)}", soft_wrap=True, highlight=False)

    def fault(self, kind: str, text: str, pause: float) -> None:
        """Prints a fault and how long it was until records flowed again."""
        self.pauses[kind].append(pause)
        self.say(f"{kind}: {text}; records flowed again after {pause:.1f} s")

    def show(self, verdict: Verdict, scene: Scene) -> None:
        """Prints the tables and every problem."""
        self.console.print(self._faults())
        self.console.print(self._found(verdict, scene))
        for problem in verdict.problems:
            self.say(f"PROBLEM {problem}")

    def _faults(self) -> Table:
        table = Table(title="Faults, and seconds until records flowed again", title_justify="left")
        table.add_column("fault")
        for heading in ("times", "median", "longest"):
            table.add_column(heading, justify="right")
        for kind, pauses in sorted(self.pauses.items()):
            table.add_row(kind, str(len(pauses)), f"{median(pauses):.1f}", f"{max(pauses):.1f}")
        every = [pause for pauses in self.pauses.values() for pause in pauses]
        if every:
            table.add_section()
            table.add_row("all", str(len(every)), f"{median(every):.1f}", f"{max(every):.1f}")
        return table

    def _found(self, verdict: Verdict, scene: Scene) -> Table:
        found = Table(title="Found", title_justify="left", show_header=False)
        ends = ", ".join(
            f"{times} with exit code {code}" for code, times in sorted(scene.mirrors.ends.items())
        )
        events = ", ".join(f"{kind} {times}" for kind, times in sorted(verdict.events.items()))
        rows = {
            "records": f"{verdict.records:,}",
            "lost": f"{verdict.lost:,}",
            "repeated": f"{verdict.repeated:,}",
            "not of the source": f"{verdict.foreign:,}",
            "partitions, those without gaps": f"{scene.load.partitions}, {verdict.dense}",
            "partitions out of order": str(verdict.disordered),
            "wrong entries of the offset map": f"{verdict.wrong:,}",
            "events": events or "none",
            "jobs started": str(scene.mirrors.started),
            "jobs that ended by themselves": ends or "none",
            "producers started again": str(scene.load.restarts),
            "seconds": f"{time.monotonic() - self.started:.0f}",
        }
        for name, value in rows.items():
            found.add_row(name, value)
        return found
