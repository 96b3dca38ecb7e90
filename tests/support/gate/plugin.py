"""The gate: chooses the tests, runs late ones once more, and says what was decided.

It is in the process that prints. With xdist, the processes that run the tests choose them, too, and
the first of them writes down what it has chosen.
"""

import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Generator, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.gate import quarantine, repository
from tests.support.gate.choice import Candidate, Place, Situation, Tier, choose, choose_all, places
from tests.support.gate.clock import Limit
from tests.support.gate.judge import Missed
from tests.support.gate.verdict import Outcome, Verdict, outcome_of_late
from tests.support.scheduling import SHARING

LONGEST_BY_HAND_SECONDS: Final = 1800.0
"""A test that may take longer runs by hand only."""
LAST_START_SECONDS: Final = 120.0  # before the end
GRACE_SECONDS: Final = 75.0
"""After the end, tests that do not end by themselves are ended with their process."""
MOST_TEXT: Final = 500  # characters of why a test failed

DECIDED: Final = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
"""Other exit codes of pytest are final: a wrong call, an error of its own, Ctrl-C."""

# Of a test whose reports differ, the first of these counts.
WORST_FIRST: Final = (
    *(Outcome.FAILED, Outcome.QUARANTINED, Outcome.LATE, Outcome.UNDECIDED),
    *(Outcome.NOT_RUN, Outcome.SKIPPED, Outcome.PASSED),
)
OWN_CATEGORIES: Final = {
    Outcome.LATE: "L",
    Outcome.UNDECIDED: "U",
    Outcome.NOT_RUN: "n",
    Outcome.QUARANTINED: "q",
}


class Gate:
    """Hooks of pytest. *mode* is the value of the option ``--gate``."""

    def __init__(self, config: pytest.Config, mode: str) -> None:
        self._config, self._mode = config, mode
        self._hard_end: float | None = config.getoption("--hard-end")
        handed: Mapping[str, Any] | None = getattr(config, "workerinput", {}).get("gate")
        if handed is None:
            self._plan = Path(tempfile.mkdtemp(prefix="gate-")) / "plan.json"
            self._situation = _situation(config.getoption("--budget"))
        else:
            self._plan = Path(handed["plan"])
            self._situation = _read_situation(handed["situation"])
        self._outcomes: dict[str, Outcome] = {}
        self._missed: dict[str, Missed] = {}
        self._seconds: dict[str, float] = {}
        self._limit = Limit(0)
        self._is_over = False
        if mode == "again":
            Limit.PATIENCE *= 2

    @property
    def places(self) -> dict[str, Place]:
        """Where each chosen test stands, in their order."""
        return {name: Place(Tier(tier), *rest) for name, (tier, *rest) in self._read()["places"]}

    def _read(self) -> Any:  # noqa: ANN401 - JSON
        return json.loads(self._plan.read_text()) if self._plan.exists() else {"places": []}

    # Choosing the tests, in the processes that run them

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:  # noqa: ANN401 - xdist's own
        """Gives a process what the choice depends on, for all must choose the same tests."""
        situation = {**asdict(self._situation), "changed": sorted(self._situation.changed)}
        situation["quarantined"] = sorted(self._situation.quarantined)
        node.workerinput["gate"] = {"plan": str(self._plan), "situation": situation}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Chooses and sorts the tests."""
        tests = [_candidate(item) for item in items]
        if self._mode == "share":
            chosen = choose(tests, self._situation, repository.durations())
        else:
            chosen = choose_all(tests, with_soak=self._mode in ("soak", "again"))
        placed = places(tests, chosen, repository.durations(), SHARING, self._situation.changed)
        plan = {
            "places": [
                (name, (place.tier, place.scope, place.is_job)) for name, place in placed.items()
            ],
        }
        if getattr(self._config, "workerinput", {}).get("workerid", "gw0") == "gw0":
            self._plan.with_suffix(".new").write_text(json.dumps(plan))
            self._plan.with_suffix(".new").rename(self._plan)
        by_name = {item.nodeid: item for item in items}
        left_out = [item for item in items if item.nodeid not in placed]
        self._config.hook.pytest_deselected(items=left_out)
        items[:] = [by_name[name] for name in placed]

    # Counting, in the process that prints

    @pytest.hookimpl(optionalhook=True, trylast=True)
    def pytest_sessionstart(self) -> None:
        """Ends a run that does not end by itself."""
        dsession: Any = self._config.pluginmanager.getplugin("dsession")
        if dsession is None or self._hard_end is None:
            return

        def end() -> None:
            self._is_over = True
            dsession.shouldstop = "the time of the run is over"
            dsession.worker_gate_is_over = lambda: None
            dsession.queue.put(("gate_is_over", {}))  # wakes it up

        timer = threading.Timer(self._hard_end + GRACE_SECONDS - time.time(), end)
        timer.daemon = True
        timer.start()

    def _outcome(self, report: pytest.TestReport) -> Outcome:
        said = report.__dict__.get("gate", {})
        if "not_run" in said:
            return Outcome.NOT_RUN
        if not report.failed:
            return Outcome.SKIPPED if report.skipped else Outcome.PASSED
        if report.nodeid in self._situation.quarantined:
            return Outcome.QUARANTINED
        if "missed" not in said:
            return Outcome.FAILED
        missed = Missed(**said["missed"])
        if missed.is_out_of_time:
            return Outcome.UNDECIDED
        return outcome_of_late(missed.share, again=self._mode == "again")

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        """Counts what did not decide under a name of its own."""
        if isinstance(report, pytest.TestReport):
            outcome = self._outcome(report)
            if outcome in OWN_CATEGORIES:
                return outcome.value, OWN_CATEGORIES[outcome], outcome.value.upper()
        return None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keeps the worst of a test's reports; one whose call has no report did not pass."""
        said, outcome = report.__dict__.get("gate", {}), self._outcome(report)
        if outcome is not Outcome.PASSED or report.when == "call":
            before = self._outcomes.get(report.nodeid, outcome)
            self._outcomes[report.nodeid] = min(before, outcome, key=WORST_FIRST.index)
        if "missed" in said:
            self._missed[report.nodeid] = Missed(**said["missed"])
        if "seconds" in said:
            self._seconds[report.nodeid] = said["seconds"]

    # The end

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Runs the late ones once more, and decides."""
        if hasattr(self._config, "workerinput"):
            return
        share = self._limit.share
        placed = self.places
        self._outcomes = {**dict.fromkeys(placed, Outcome.NOT_RUN), **self._outcomes}
        if self._mode == "again":
            self._write_report()
        elif exitstatus in DECIDED and (late := self._named(Outcome.LATE)):
            self._run_again(sorted(late, key=lambda name: (placed[name].tier, self._seconds[name])))
        guarantees = {name for name in placed if placed[name].tier is Tier.GUARANTEE}
        self._verdict = Verdict(self._outcomes, guarantees, share)
        if self._config.getoption("--write-durations"):
            passed = self._named(Outcome.PASSED)
            repository.write_durations({name: self._seconds[name] for name in passed})
        if exitstatus in DECIDED or self._is_over:
            session.exitstatus = pytest.ExitCode(int(bool(self._verdict.problems)))

    def _named(self, outcome: Outcome) -> list[str]:
        return [name for name, its in self._outcomes.items() if its is outcome]

    def _write_report(self) -> None:
        said = {
            name: (outcome.name, asdict(self._missed[name]) if name in self._missed else None)
            for name, outcome in self._outcomes.items()
        }
        Path(self._config.getoption("--gate-report")).write_text(json.dumps(said))

    def _run_again(self, late: list[str]) -> None:
        """Runs what was late in a pytest of its own, and takes what that says."""
        report = self._plan.with_name("again.json")
        command = [sys.executable, "-m", "pytest", "--gate=again", f"--gate-report={report}"]
        if self._hard_end is not None:
            command += [
                f"--hard-end={self._hard_end}",
                f"--until={self._hard_end - LAST_START_SECONDS}",
            ]
        print("\n\n== what was late runs once more, alone, with twice the time", flush=True)  # noqa: T201
        left = None if self._hard_end is None else self._hard_end + GRACE_SECONDS - time.time()
        with suppress(subprocess.TimeoutExpired):
            subprocess.run([*command, *late], check=False, cwd=self._config.rootpath, timeout=left)
        said = json.loads(report.read_text()) if report.exists() else {}
        for name in late:
            outcome, missed = said.get(name, (Outcome.NOT_RUN.name, None))
            self._outcomes[name] = {
                Outcome.PASSED: Outcome.LATE_THEN_PASSED,
                Outcome.FAILED: Outcome.FAILED,
            }.get(Outcome[outcome], Outcome.UNDECIDED)
            if missed:
                self._missed[name] = Missed(**missed)
            self._move(name)

    def _move(self, name: str) -> None:
        """Lets pytest's summary count a late test as what it has become."""
        stats = self._config.pluginmanager.getplugin("terminalreporter").stats
        late = stats.get(Outcome.LATE.value, [])
        mine = [report for report in late if report.nodeid == name]
        stats[Outcome.LATE.value] = [report for report in late if report.nodeid != name]
        stats.setdefault(self._outcomes[name].value, []).extend(mine)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_terminal_summary(
        self, terminalreporter: pytest.TerminalReporter
    ) -> Generator[None, None, None]:
        """Prints the verdict, the last but pytest's own line."""
        yield
        if self._mode == "again":  # the first run says what that means
            return
        terminalreporter.section("gate")
        for name, missed in self._missed.items():
            word = self._outcomes[name].value
            terminalreporter.line(
                f"LATE {name} {missed.share:.2f} {missed.seconds:.0f} s: {word}: {missed.text}"
            )
        for outcome in (Outcome.QUARANTINED, Outcome.NOT_RUN):
            for name in self._named(outcome):
                terminalreporter.line(f"{outcome.value.upper()} {name}")
        for name in self._verdict.undecided_guarantees:
            terminalreporter.line(f"NOT DECIDED {name}: {self._outcomes[name].value}: a guarantee")
        # once more and short: the page of CI shows the end of the output, without what is above
        for report in (
            *terminalreporter.getreports("error"),
            *terminalreporter.getreports("failed"),
        ):
            crash = getattr(report.longrepr, "reprcrash", None)
            text = crash.message if crash else str(report.longrepr)
            terminalreporter.line(f"FAILED {report.nodeid}: {text[:MOST_TEXT]}")
        terminalreporter.line(self._verdict.line)
        for problem in self._verdict.problems:
            terminalreporter.line(f"RED: {problem}", red=True)


def _situation(budget_seconds: float | None) -> Situation:
    file = quarantine.FILE
    text = file.read_text() if file.exists() else ""
    return Situation(
        turn=repository.turn(),
        changed=repository.changed_lately(),
        budget_seconds=budget_seconds,
        quarantined=frozenset(entry.nodeid for entry in quarantine.entries(text)),
    )


def _read_situation(handed: Mapping[str, Any]) -> Situation:
    plain = Situation(**handed)
    return replace(
        plain, changed=frozenset(plain.changed), quarantined=frozenset(plain.quarantined)
    )


def _candidate(item: pytest.Item) -> Candidate:
    limit = item.get_closest_marker("timeout")
    is_long = limit is not None and bool(limit.args) and limit.args[0] > LONGEST_BY_HAND_SECONDS
    conditions = [mark.args[0] for mark in item.iter_markers("skipif") if mark.args]
    return Candidate(
        item.nodeid,
        frozenset(mark.name for mark in item.iter_markers()),
        repository.imports(item.path),
        repository.helped_by(item.path),
        is_skipped=is_long or any(condition is True for condition in conditions),
    )
