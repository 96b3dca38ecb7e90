"""Which tests a run takes, in which order, and what it decides."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.gate import quarantine, repository
from tests.support.gate.choice import (
    SHARES,
    Candidate,
    Durations,
    Situation,
    Tier,
    choose,
    choose_all,
    nearness,
    places,
)
from tests.support.gate.subjects import SUBJECTS, fits, is_on_data_path
from tests.support.gate.verdict import Outcome, Verdict, outcome_of_late
from tests.support.local import REPOSITORY


def case(name: str, *marks: str) -> Candidate:
    return Candidate(f"tests/cluster/test_{name}.py::test", frozenset(marks))


UNIT = case("rule")
SPARK = case("table", "spark")
GUARANTEE = case("crash", "cluster", "job", "guarantee")
OTHERS = [case(f"other{number}", "cluster", "spark") for number in range(30)]
BY_HAND = [case(f"hand{number}", "cluster", "soak") for number in range(4)]
TESTS = [UNIT, SPARK, GUARANTEE, *OTHERS, *BY_HAND]
UNKNOWN = Durations()


def chosen(tier: Tier, situation: Situation, tests: list[Candidate] | None = None) -> set[str]:
    found = choose(TESTS if tests is None else tests, situation, UNKNOWN)
    return {name for name, its in found.items() if its is tier}


@given(st.integers(0, 10_000))
def test_what_needs_no_broker_and_what_is_a_guarantee_is_in_every_run(turn: int) -> None:
    found = choose(TESTS, Situation(turn), UNKNOWN)

    assert [found.get(each.nodeid) for each in (UNIT, SPARK, GUARANTEE)] == [
        *(Tier.UNIT, Tier.SPARK, Tier.GUARANTEE)
    ]


@given(st.integers(0, 10_000))
def test_three_commits_after_each_other_take_each_test_once(turn: int) -> None:
    turns = [chosen(Tier.ROTATION, Situation(turn + each)) for each in range(SHARES)]

    assert set().union(*turns) == {each.nodeid for each in OTHERS}
    assert sum(map(len, turns)) == len(OTHERS)


@given(st.integers(0, 10_000))
def test_what_runs_by_hand_takes_turns(turn: int) -> None:
    turns = [chosen(Tier.BY_HAND, Situation(turn + each)) for each in range(len(BY_HAND))]

    assert all(len(each) == 1 for each in turns)
    assert set().union(*turns) == {each.nodeid for each in BY_HAND}


def test_what_cannot_run_here_has_no_turn() -> None:
    tests = [replace(each, is_skipped=each is not BY_HAND[2]) for each in BY_HAND]

    assert chosen(Tier.BY_HAND, Situation(1), tests) == {BY_HAND[2].nodeid}


def test_a_changed_module_takes_the_tests_that_import_it_as_far_as_time_is_left() -> None:
    near = [replace(each, imports=frozenset({"replication.serve.app"})) for each in OTHERS[:9]]
    situation = Situation(0, frozenset({"replication/serve/app.py"}))
    rotation = chosen(Tier.ROTATION, situation, near)

    assert chosen(Tier.NEAR, situation, near) == {each.nodeid for each in near} - rotation
    short = replace(situation, budget_seconds=5 * len(rotation) + 10)
    assert len(chosen(Tier.NEAR, short, near)) == 2
    assert len(chosen(Tier.ROTATION, short, near)) == len(rotation)


def test_a_changed_test_and_one_in_quarantine_are_taken() -> None:
    own = OTHERS[0]
    for turn in range(SHARES):
        situation = Situation(
            turn, frozenset({own.file}), quarantined=frozenset({BY_HAND[0].nodeid})
        )
        found = choose(TESTS, situation, UNKNOWN)

        assert found[own.nodeid] is Tier.CHANGED
        assert found[BY_HAND[0].nodeid] is Tier.QUARANTINED


def files(*paths: str) -> list[Candidate]:
    return [Candidate(f"tests/cluster/{path}.py::test", frozenset({"cluster"})) for path in paths]


LETTERS = files("records/test_dead_letters", "outages/test_killed_letters")
SOURCE = files("records/test_shared_reads", "records/test_idle", "outages/test_crash")
LEASES = files("leases/test_standby")
ELSEWHERE = files("topics/test_acls", "commands/test_plan")


@pytest.mark.parametrize(
    ("changed", "subject"),
    [
        ("replication/jvm/source/SharedReader.java", SOURCE + LETTERS[1:]),
        ("replication/jvm/producer/PartitionCopy.java", LETTERS + SOURCE),
        ("replication/jvm/calls/Ownership.java", LEASES + SOURCE[2:]),
        ("replication/state/lease.py", LEASES),
        ("replication/state/dead_letters.py", LETTERS + LEASES),
        ("replication/offsets/dead_letter.py", LETTERS + SOURCE[2:]),
        ("replication/serve/app.py", []),
        ("conf/README.md", []),
    ],
)
def test_a_change_of_the_data_path_takes_all_tests_of_its_subject_whatever_the_time(
    changed: str, subject: list[Candidate]
) -> None:
    tests = LETTERS + SOURCE + LEASES + ELSEWHERE
    for turn in range(SHARES):
        situation = Situation(turn, frozenset({changed}), budget_seconds=0)

        assert chosen(Tier.SUBJECT, situation, tests) == {each.nodeid for each in subject}


def test_the_tests_of_the_narrow_subject_run_first() -> None:
    changed = frozenset({"replication/flows/replicate/dead_letters.py"})
    tests = SOURCE + LETTERS + ELSEWHERE
    found = choose(tests, Situation(0, changed), UNKNOWN)
    placed = list(places(tests, found, UNKNOWN, {}, changed))

    assert set(placed[:2]) == {each.nodeid for each in LETTERS}
    assert set(placed[2:5]) == {each.nodeid for each in SOURCE}


@pytest.mark.parametrize(
    ("test", "changed", "rank"),
    [
        (LETTERS[0], "replication/flows/replicate/dead_letters.py", 0),
        (ELSEWHERE[0], "replication/topics/acls.py", 0),
        (replace(LEASES[0], imports=frozenset({"replication.log"})), "replication/log.py", 1),
        (replace(LEASES[0], helped_by=frozenset({"replication.log"})), "replication/log.py", 2),
        (LEASES[0], "replication/log.py", None),
    ],
)
def test_how_near_a_test_is_to_a_change(test: Candidate, changed: str, rank: int | None) -> None:
    assert nearness(test, frozenset({changed})) == rank


def test_what_is_nearest_comes_first_where_time_is_short() -> None:
    far, near = (replace(each, helped_by=frozenset({"replication.log"})) for each in OTHERS[:2])
    near = replace(near, imports=frozenset({"replication.log"}))
    for turn in range(SHARES):
        situation = Situation(turn, frozenset({"replication/log.py"}), budget_seconds=5)
        if not chosen(Tier.ROTATION, situation, [far, near]):
            assert chosen(Tier.NEAR, situation, [far, near]) == {near.nodeid}
            return
    pytest.fail("no turn without both")


def test_a_test_reaches_modules_through_helpers_of_helpers() -> None:
    file = REPOSITORY / "tests" / "cluster" / "leases" / "test_standby.py"

    # It imports flows, which imports rotation, which imports the gate's repository, and so on.
    assert {"tests.support.rotation", "tests.support.gate.choice"} <= repository.helped_by(file)


PATHS = [
    file.relative_to(REPOSITORY).as_posix()
    for folder in ("replication", "tests", "conf/deploy")
    for file in (REPOSITORY / folder).rglob("*.*")
]


def test_each_file_of_the_data_path_has_a_subject_with_tests_on_brokers() -> None:
    patterns = [pattern for subject in SUBJECTS for pattern in subject.files]
    sources = [path for path in PATHS if is_on_data_path(path) and path.endswith((".py", ".java"))]

    assert [path for path in sources if not fits([path], patterns)] == []


def test_no_pattern_of_a_subject_is_for_nothing() -> None:
    idle = [
        pattern
        for subject in SUBJECTS
        for pattern in (*subject.files, *subject.tests)
        if not fits([*PATHS, "spark-submit.sh"], [pattern])
    ]

    assert idle == []


def test_all_are_all_but_those_that_take_many_minutes() -> None:
    without = {each.nodeid for each in TESTS} - {each.nodeid for each in BY_HAND}

    assert set(choose_all(TESTS, with_soak=False)) == without
    assert set(choose_all(TESTS, with_soak=True)) == {each.nodeid for each in TESTS}


@pytest.mark.parametrize("is_guarantee", [True, False])
def test_the_order_is_by_tier_then_jobs_then_the_longest_file_but_quick_guarantees_are_first(
    *, is_guarantee: bool
) -> None:
    mark = "guarantee" if is_guarantee else "quick"
    quick, slow = case("quick", "cluster", mark), case("slow", "cluster", mark)
    tests = [SPARK, quick, slow, GUARANTEE, UNIT]
    durations = Durations({slow.nodeid: 50, quick.nodeid: 5, GUARANTEE.nodeid: 1})

    chosen = choose_all(tests, with_soak=False)
    placed = places(tests, chosen, durations, {})

    pair = [quick, slow] if is_guarantee else [slow, quick]
    order = [UNIT, GUARANTEE, *pair, SPARK] if is_guarantee else [UNIT, GUARANTEE, SPARK, *pair]
    assert [*placed] == [each.nodeid for each in order]
    assert [name for name, place in placed.items() if place.is_job] == [GUARANTEE.nodeid]


def test_tests_of_one_file_are_together_and_files_that_share_brokers_too() -> None:
    tests = [replace(OTHERS[0], nodeid=f"{OTHERS[0].nodeid}[{number}]") for number in range(3)]
    tests += OTHERS[1:3]
    sharing = {OTHERS[1].file: "secured", OTHERS[2].file: "secured"}
    placed = places(tests, choose_all(tests, with_soak=False), UNKNOWN, sharing)

    assert len({place.scope for place in placed.values()}) == 2


@pytest.mark.parametrize(
    ("share", "again", "outcome"),
    [
        (0.9, False, Outcome.FAILED),
        (0.51, False, Outcome.FAILED),
        (0.5, False, Outcome.LATE),
        (0.26, True, Outcome.FAILED),
        (0.1, True, Outcome.UNDECIDED),
    ],
)
def test_the_machine_excuses_a_missed_limit_if_it_gave_little(
    share: float, outcome: Outcome, *, again: bool
) -> None:
    assert outcome_of_late(share, again=again) is outcome


CALM, CRAWLING = 0.8, 0.2


def verdict(share: float, **counts: int) -> Verdict:
    """Of a run with one guarantee, which passed, and with so many tests of each outcome."""
    return verdict_with(share, Outcome.PASSED, counts)


def verdict_with(share: float, guarantee: Outcome, counts: Mapping[str, int]) -> Verdict:
    outcomes = {"tests/a.py::passed": Outcome.PASSED, "tests/a.py::guarantee": guarantee}
    for name, count in counts.items():
        outcomes |= {f"tests/a.py::{name}{each}": Outcome[name] for each in range(count)}
    return Verdict(outcomes, {"tests/a.py::guarantee"}, share)


@pytest.mark.parametrize("share", [CALM, CRAWLING])
def test_a_wrong_result_is_red_on_every_machine(share: float) -> None:
    assert verdict(share, FAILED=1).problems == ["1 failed"]
    assert verdict_with(share, Outcome.FAILED, {}).problems == ["1 failed"]


@pytest.mark.parametrize(
    ("counts", "problem"),
    [
        ({"LATE_THEN_PASSED": 3}, None),
        ({"LATE_THEN_PASSED": 4}, "more than 3 were late and then passed"),
        ({"UNDECIDED": 5}, None),
        ({"UNDECIDED": 6}, "more than 5 ran and were not decided"),
        ({"NOT_RUN": 100, "SKIPPED": 100, "QUARANTINED": 5}, None),  # no guarantees
    ],
)
def test_a_calm_machine_excuses_a_few_and_one_that_crawls_excuses_all(
    counts: dict[str, int], problem: str | None
) -> None:
    assert verdict(CALM, **counts).problems == ([problem] if problem else [])
    assert verdict(CRAWLING, **counts).problems == []


NOT_DECIDED = [Outcome.UNDECIDED, Outcome.NOT_RUN, Outcome.SKIPPED, Outcome.QUARANTINED]


def of_guarantees(share: float, decided: int, of: int, otherwise: Outcome) -> list[str]:
    outcomes = {
        f"tests/a.py::{each}": Outcome.PASSED if each < decided else otherwise for each in range(of)
    }
    return Verdict({"tests/b.py::x": Outcome.PASSED, **outcomes}, set(outcomes), share).problems


@pytest.mark.parametrize("outcome", NOT_DECIDED)
def test_a_guarantee_must_be_decided_if_there_was_time(outcome: Outcome) -> None:
    assert of_guarantees(CALM, 4, 5, outcome) == ["guarantee not decided: tests/a.py::4"]
    assert of_guarantees(CRAWLING, 4, 5, outcome) == []


@pytest.mark.parametrize("outcome", NOT_DECIDED)
def test_four_of_five_guarantees_must_be_decided_on_every_machine(outcome: Outcome) -> None:
    assert of_guarantees(CRAWLING, 79, 99, outcome) == [
        "only 79 of 99 guarantees were decided: at least four of five must be"
    ]
    assert of_guarantees(CRAWLING, 80, 100, outcome) == []
    assert of_guarantees(CRAWLING, 0, 1, outcome) != []
    assert of_guarantees(CRAWLING, 0, 0, outcome) == []


def test_a_guarantee_that_was_late_and_then_passed_was_decided() -> None:
    assert of_guarantees(CRAWLING, 0, 5, Outcome.LATE_THEN_PASSED) == []


@pytest.mark.parametrize("share", [CALM, CRAWLING])
def test_a_run_in_which_nothing_passed_is_red(share: float) -> None:
    assert Verdict({"tests/a.py::late": Outcome.UNDECIDED}, set(), share).problems == [
        "no test passed"
    ]


def test_the_line_counts_everything() -> None:
    assert verdict(0.25, LATE_THEN_PASSED=2, UNDECIDED=1, NOT_RUN=4, QUARANTINED=1).line == (
        "decided 2, late and then passed 2, not decided 5 (4 not run), quarantined 1; "
        "the machine gave 0.25 of a core"
    )


def test_the_quarantine_is_short_and_nobody_stays() -> None:
    found = quarantine.entries(quarantine.FILE.read_text())

    assert quarantine.problems(found, date.today()) == []  # noqa: DTZ011 - a day more or less


def test_a_line_of_the_quarantine() -> None:
    text = "# a comment\ntests/a.py::x[a b] | 2026-11-20 | races with the broker | issue 7\n"
    (entry,) = found = quarantine.entries(text)

    assert entry.nodeid == "tests/a.py::x[a b]"
    assert quarantine.problems(found, date(2026, 12, 4)) == []
    assert quarantine.problems(found, date(2026, 12, 5)) != []
    assert quarantine.problems(found, date(2026, 11, 19)) != []
    assert quarantine.problems([replace(entry, mended_by="")], date(2026, 11, 21)) != []
    assert quarantine.problems(found * 6, date(2026, 11, 21)) == ["more than 5 lines"]


def test_the_measured_durations_can_be_read() -> None:
    assert all(seconds >= 0 for seconds in repository.durations().measured.values())
