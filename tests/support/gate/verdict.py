"""What a run decides: which missed limits the machine excuses, and how many may be excused."""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

STARVED: Final = 0.5
"""A limit that was missed with more of a core than this is a failure."""
STARVED_AGAIN: Final = 0.25
"""So it is in the second run, in which a test is alone and has twice the time."""
CALM: Final = 0.5
"""A machine that gave more than this on average excuses little."""
LEAST_DECIDED: Final = 0.8
"""On every machine, of the guarantees."""
MOST_LATE: Final = 3
MOST_UNDECIDED: Final = 5


class Outcome(Enum):
    """What became of a test. The value is the word in pytest's summary."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"
    LATE = "late"  # until it has run once more
    LATE_THEN_PASSED = "late and then passed"
    UNDECIDED = "not decided"
    NOT_RUN = "not run"
    QUARANTINED = "quarantined"


def outcome_of_late(share: float, *, again: bool) -> Outcome:
    """What a test is that missed a limit, with a *share* of a core while it waited."""
    if share > (STARVED_AGAIN if again else STARVED):
        return Outcome.FAILED
    return Outcome.UNDECIDED if again else Outcome.LATE


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a run has decided.

    Args:
        outcomes: Of every test that was chosen.
        guarantees: The tests that every run must decide.
        share: Of a core, which the machine gave on average to a task that wanted to run.
    """

    outcomes: Mapping[str, Outcome]
    guarantees: Collection[str]
    share: float

    @property
    def undecided_guarantees(self) -> list[str]:
        """Those that a run did not decide, for whatever reason; a skipped one is among them."""
        decided = (Outcome.PASSED, Outcome.FAILED, Outcome.LATE_THEN_PASSED)
        return [
            nodeid
            for nodeid, outcome in self.outcomes.items()
            if nodeid in self.guarantees and outcome not in decided
        ]

    @property
    def line(self) -> str:
        """The one line that says it."""
        count = Counter(self.outcomes.values())
        not_run = count[Outcome.NOT_RUN]
        undecided = not_run + count[Outcome.UNDECIDED] + count[Outcome.LATE]
        return (
            f"decided {count[Outcome.PASSED] + count[Outcome.FAILED]}, "
            f"late and then passed {count[Outcome.LATE_THEN_PASSED]}, "
            f"not decided {undecided}{f' ({not_run} not run)' if not_run else ''}, "
            f"quarantined {count[Outcome.QUARANTINED]}; "
            f"the machine gave {self.share:.2f} of a core"
        )

    @property
    def problems(self) -> list[str]:
        """Why the run is red; empty if it is green."""
        count = Counter(self.outcomes.values())
        found = []
        if count[Outcome.FAILED]:
            found.append(f"{count[Outcome.FAILED]} failed")
        if not count[Outcome.PASSED]:
            found.append("no test passed")
        decided = len(self.guarantees) - len(self.undecided_guarantees)
        if decided < LEAST_DECIDED * len(self.guarantees):
            found.append(
                f"only {decided} of {len(self.guarantees)} guarantees were decided: "
                "at least four of five must be"
            )
        return found + (self._not_excused(count) if self.share > CALM else [])

    def _not_excused(self, count: Counter[Outcome]) -> list[str]:
        """What a machine that gave enough does not excuse."""
        starved = count[Outcome.UNDECIDED] + count[Outcome.LATE]
        found = []
        if count[Outcome.LATE_THEN_PASSED] > MOST_LATE:
            found.append(f"more than {MOST_LATE} were late and then passed")
        if starved > MOST_UNDECIDED:
            found.append(f"more than {MOST_UNDECIDED} ran and were not decided")
        found += [f"guarantee not decided: {nodeid}" for nodeid in self.undecided_guarantees]
        return found
