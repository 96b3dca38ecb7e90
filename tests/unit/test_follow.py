"""The exit code of a driver that runs elsewhere, from what spark-submit logs of it."""

import io
import sys

import pytest

from replication.app.run_history import LONGEST_TEXT, JobOutcome
from replication.deploy.follow import follow
from replication.errors import ConfigError, GuardError

YARN = "ERROR Client: Application diagnostics message: " + str(
    JobOutcome.of(GuardError("the log was\n truncated"), "flow A->B")
)
KUBERNETES = "\t container state: terminated\n\t exit code: 2\n\t termination reason: Error"
FINAL = (
    "INFO LoggingPodStatusWatcherImpl: Container final statuses:\n\n\n\t container name: driver\n"
)
SUCCEEDED = (
    f"{FINAL}\t container state: terminated\n\t exit code: 0\n\t termination reason: Completed"
)
DELETED = f"{FINAL}\t container state: running\n\t container started at: 2026-11-23T07:33:45Z"


@pytest.mark.parametrize(
    ("log", "code", "expected"),
    [
        pytest.param(YARN, 1, 5, id="YARN"),
        pytest.param(KUBERNETES, 0, 2, id="Kubernetes"),
        pytest.param(SUCCEEDED, 0, 0, id="Kubernetes, a clean end"),
        pytest.param("INFO Client: submitted", 0, 0, id="a clean end"),
        pytest.param("Exception: no such queue", 1, 1, id="not submitted"),
    ],
)
def test_the_exit_code_is_the_drivers(log: str, code: int, expected: int) -> None:
    program = f"import sys; print({log!r}, file=sys.stderr); sys.exit({code})"
    output = io.StringIO()

    assert follow([sys.executable, "-c", program], output) == expected
    assert output.getvalue() == f"{log}\n"


def test_a_pod_that_was_deleted_while_it_ran_is_no_success() -> None:
    program = f"import sys; print({DELETED!r}, file=sys.stderr)"
    output = io.StringIO()

    assert follow([sys.executable, "-c", program], output) == 1
    assert output.getvalue().endswith(
        "spark-submit.sh: the driver's pod was deleted while it ran\n"
    )


def test_an_outcome_is_one_line_that_is_not_too_long() -> None:
    outcome = JobOutcome.of(ConfigError("a.yaml", ["topics: wrong", "x" * 2000]))

    assert str(outcome).startswith("exit code 2: a.yaml has 2 problem(s): - topics: wrong - xxx")
    assert "\n" not in str(outcome)
    assert len(str(outcome)) == LONGEST_TEXT
