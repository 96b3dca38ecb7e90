"""Which tests a run takes, and in which order.

Every run takes the tests without brokers and those of the guarantees. A change of the data path
takes all tests with brokers of its subjects. Of the others, each commit takes a third, and one that
otherwise runs by hand only. What else is near a changed file joins them, as far as the run's time
is enough for it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final
from zlib import crc32

from tests.support.gate.subjects import is_on_data_path, subject_rank

SHARES: Final = 3
PROCESSES: Final = 2
"""So many tests run at once, on average: of three processes, the one for jobs ends first."""
UNKNOWN_SECONDS: Final = {"job": 60.0, "cluster": 10.0, "spark": 5.0}
"""How long a test takes that was never measured, by its first marker."""


class Tier(IntEnum):
    """Why a test was chosen. They run in this order."""

    UNIT = 0
    GUARANTEE = 1
    SPARK = 2
    QUARANTINED = 3
    CHANGED = 4
    SUBJECT = 5
    BY_HAND = 6
    ROTATION = 7
    NEAR = 8
    OTHER = 9


@dataclass(frozen=True, slots=True)
class Candidate:
    """A test that may be chosen.

    Args:
        nodeid: Its name.
        marks: The names of its markers.
        imports: The modules that its file imports.
        helped_by: The modules that the helpers of the tests import for it, and those helpers.
        is_skipped: It cannot run here, or takes longer than a run has time for.
    """

    nodeid: str
    marks: frozenset[str] = frozenset()
    imports: frozenset[str] = frozenset()
    helped_by: frozenset[str] = frozenset()
    is_skipped: bool = False

    @property
    def file(self) -> str:
        """The path of its file in the repository."""
        return file_of(self.nodeid)


@dataclass(frozen=True, slots=True)
class Situation:
    """What the choice depends on, besides the tests.

    Args:
        turn: Counts the commits, so that the next commit takes other tests.
        changed: Paths in the repository that were changed lately.
        budget_seconds: For the tests that are near a change; None takes them all.
        quarantined: Tests that run in every run.
    """

    turn: int = 0
    changed: frozenset[str] = frozenset()
    budget_seconds: float | None = None
    quarantined: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Place:
    """Where a test stands in a run: a process runs all tests of a *scope* one after the other."""

    tier: Tier
    scope: str
    is_job: bool


@dataclass(frozen=True, slots=True)
class Durations:
    """How long tests take, in seconds of a calm machine."""

    measured: Mapping[str, float] = field(default_factory=dict)

    def of(self, test: Candidate) -> float:
        """As measured, or a guess."""
        guess = next((UNKNOWN_SECONDS[mark] for mark in UNKNOWN_SECONDS if mark in test.marks), 0.1)
        return self.measured.get(test.nodeid, guess)


def file_of(nodeid: str) -> str:
    """The path of a test's file."""
    return nodeid.split("::", 1)[0]


def choose(
    tests: Sequence[Candidate], situation: Situation, durations: Durations
) -> dict[str, Tier]:
    """The tests that a run takes, each with the reason."""
    chosen = {test.nodeid: tier for test in tests if (tier := _always(test, situation)) is not None}
    others = [test for test in tests if test.nodeid not in chosen]
    if by_hand := _by_hand(others, situation.turn):
        chosen[by_hand] = Tier.BY_HAND
    rest = [test for test in others if "soak" not in test.marks]
    on_data_path = frozenset(filter(is_on_data_path, situation.changed))
    turn = situation.turn % SHARES
    for test in rest:
        if test.file in situation.changed:
            chosen[test.nodeid] = Tier.CHANGED
        elif subject_rank(test.file, on_data_path) is not None:
            chosen[test.nodeid] = Tier.SUBJECT
        elif crc32(test.nodeid.encode()) % SHARES == turn:
            chosen[test.nodeid] = Tier.ROTATION
    left = _seconds_left([test for test in tests if test.nodeid in chosen], situation, durations)
    near = [
        (rank, test)
        for test in rest
        if test.nodeid not in chosen and (rank := nearness(test, situation.changed)) is not None
    ]
    for _, test in sorted(near, key=lambda pair: pair[0]):
        left -= durations.of(test)
        if left >= 0:
            chosen[test.nodeid] = Tier.NEAR
    return chosen


def choose_all(tests: Iterable[Candidate], *, with_soak: bool) -> dict[str, Tier]:
    """Every test; those that take many minutes only if asked for."""
    return {
        test.nodeid: tier if (tier := _always(test, Situation())) is not None else Tier.OTHER
        for test in tests
        if with_soak or "soak" not in test.marks
    }


def _always(test: Candidate, situation: Situation) -> Tier | None:
    if test.nodeid in situation.quarantined:
        return Tier.QUARANTINED
    if "guarantee" in test.marks:
        return Tier.GUARANTEE
    if "cluster" in test.marks or "soak" in test.marks:
        return None
    return Tier.SPARK if "spark" in test.marks else Tier.UNIT


def _by_hand(tests: Iterable[Candidate], turn: int) -> str | None:
    able = sorted(test.nodeid for test in tests if "soak" in test.marks and not test.is_skipped)
    return able[turn % len(able)] if able else None


def _seconds_left(chosen: Iterable[Candidate], situation: Situation, durations: Durations) -> float:
    if situation.budget_seconds is None:
        return float("inf")
    return PROCESSES * situation.budget_seconds - sum(map(durations.of, chosen))


def nearness(test: Candidate, changed: frozenset[str]) -> int | None:
    """How near *test* is to what was *changed*: the lower, the nearer; None if it is not near.

    It is near what its subject is, then what its file imports, then what the helpers import.
    """
    if subject_rank(test.file, changed) is not None:
        return 0
    for rank, modules in enumerate((test.imports, test.helped_by), start=1):
        if any(f"{module.replace('.', '/')}.py" in changed for module in modules):
            return rank
    return None


def places(
    tests: Sequence[Candidate],
    chosen: Mapping[str, Tier],
    durations: Durations,
    sharing: Mapping[str, str],
    changed: frozenset[str] = frozenset(),
) -> dict[str, Place]:
    """Where the *chosen* tests stand, in the order in which they run.

    First by tier, in `Tier.SUBJECT` by how narrow the subject is; then those that start jobs, for
    one process runs them all; then the files that take longest. Of the guarantees the quickest come
    first: on a machine that crawls, as many as possible shall be decided. *sharing* names files
    that share what is slow to start.
    """
    on_data_path = frozenset(filter(is_on_data_path, changed))
    placed: dict[str, Place] = {}
    seconds: dict[str, float] = {}
    takes_part = [test for test in tests if test.nodeid in chosen]
    for test in takes_part:
        tier, is_job = chosen[test.nodeid], "job" in test.marks
        scope = f"{tier.name}{' job' if is_job else ''} {sharing.get(test.file, test.file)}"
        placed[test.nodeid] = Place(tier, scope, is_job)
        seconds[scope] = seconds.get(scope, 0) + durations.of(test)

    def rank(test: Candidate) -> tuple[int, int, bool, float, str]:
        place = placed[test.nodeid]
        subject = subject_rank(test.file, on_data_path) if place.tier is Tier.SUBJECT else None
        sign = 1 if place.tier is Tier.GUARANTEE else -1
        return (
            *(place.tier, subject or 0, not place.is_job),
            *(sign * seconds[place.scope], place.scope),
        )

    return {test.nodeid: placed[test.nodeid] for test in sorted(takes_part, key=rank)}
