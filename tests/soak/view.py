"""What the operator sees during a soak: it must be there, and must not grow with the faults."""

import threading
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from replication.config.file import load_config
from replication.control.flow_answers import FlowAnswer, FlowAnswers
from replication.errors import ReplicationError
from replication.figures.observation import Observation
from replication.metrics.collector import FlowCollector
from replication.metrics.limits import Limits

LOOK_SECONDS = 5.0
SPARE = 1.1
"""Topics differ in their series by their states."""


@dataclass(frozen=True, slots=True)
class Look:
    """One look: the state, the process that owns the flow, and how many topics and series."""

    state: str
    owner: int | None
    topics: int
    series: int


class ViewWatch(AbstractContextManager["ViewWatch"]):
    """Looks at the only flow of *config* every few seconds, as `serve` does, for the block."""

    def __init__(self, config: Path) -> None:
        self.looks: list[Look] = []
        self.failures = 0
        self._config = load_config(str(config))
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="view of the soak", daemon=True)

    def __enter__(self) -> "ViewWatch":  # noqa: PYI034 - typing has Self from 3.11
        """Begins to look."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Ends it."""
        self._over.set()
        self._thread.join(3 * LOOK_SECONDS)

    def _run(self) -> None:
        with FlowAnswers(self._config, self._config.flows) as answers:
            while not self._over.is_set():
                self._look(answers)

    def _look(self, answers: FlowAnswers) -> None:
        try:
            (answer,) = answers.ask(LOOK_SECONDS)
        except ReplicationError:  # a cluster is down, or no job has begun yet
            self.failures += 1
            self._over.wait(LOOK_SECONDS)
        else:
            self._take(answer)
            self._over.wait(1.0)  # where nothing was heard, nobody has waited

    def _take(self, answer: FlowAnswer) -> None:
        word = answer.heard.word
        if word is not None:
            seen = word.observed
            owner = None if seen.owner is None else seen.owner.pid
            look = Look(str(answer.state), owner, len(seen.topics), series_of(seen))
            self.looks.append(look)

    def text(self) -> str:
        """Returns what was seen, in a line."""
        if not self.looks:
            return "the view was never there"
        states = {look.state for look in self.looks}
        owners = {look.owner for look in self.looks} - {None}
        first, last = self._ends()
        return (
            f"view: {len(self.looks)} looks, {self.failures} without an answer; "
            f"{len(owners)} owners; states {', '.join(sorted(states))}; "
            f"series {first.series} of {first.topics} topics, then {last.series} of {last.topics}"
        )

    def problems(self) -> list[str]:
        """Returns what must not be: no view at all, or more series than the topics explain."""
        if not self.looks:
            return [self.text()]
        first, last = self._ends()
        expected = first.series * max(1.0, last.topics / max(1, first.topics)) * SPARE
        return [f"series leak: {self.text()}"] if last.series > expected else []

    def _ends(self) -> tuple[Look, Look]:
        whole = [look for look in self.looks if look.topics] or self.looks
        return max(whole[:10], key=lambda look: look.series), whole[-1]


def series_of(observed: Observation) -> int:
    """How many series a Prometheus would have of a flow; partitions that lag come and go."""
    limits = Limits(topics=1000, groups=500, partitions="off")
    metrics = FlowCollector(lambda: [observed], limits).collect()
    return sum(len(metric.samples) for metric in metrics)
