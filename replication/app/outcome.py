"""Reports how a job ended to the platform that started it: YARN's diagnostics, a pod's status.

The exit code says little there, and in cluster deploy mode it may get lost. A configuration error
or a refusal would end the next attempt as well, so YARN is told that this attempt was the last one.
"""

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from py4j.java_gateway import JVMView
from py4j.protocol import Py4JError

from replication.config.home import RUN_FOLDER
from replication.errors import ConfigError, GuardError, ReplicationError, first_line
from replication.java import java_class
from replication.kafka.jvm import is_submitted
from replication.log import ENDED_FILE, Log, log_end
from replication.spark.jvm_log import end_log

log = Log(__name__)

FINAL: Final = {ConfigError.exit_code, GuardError.exit_code}
"""Another attempt would end the same way."""

LONGEST_TEXT: Final = 1000
APPLICATION_MASTER: Final = "org.apache.spark.deploy.yarn.ApplicationMaster$"
TERMINATION_LOG: Final = Path("/dev/termination-log")


@dataclass(frozen=True, slots=True)
class JobOutcome:
    """The exit code, and the cause as one line; ``JobOutcome()`` is a clean end.

    Args:
        exit_code: As in `replication.errors`.
        cause: What failed.
        before_spark: Whether the process ended before it had started Spark.
    """

    exit_code: int = 0
    cause: str = ""
    before_spark: bool = False

    @classmethod
    def of(cls, error: BaseException, subject: object = None) -> "JobOutcome":
        """Returns the outcome of *error*, which ended *subject*."""
        code = error.exit_code if isinstance(error, ReplicationError) else 1
        text = " ".join(str(error).split()) or type(error).__name__
        return cls(code, f"{subject}: {text}" if subject else text)

    def __str__(self) -> str:
        return f"exit code {self.exit_code}: {self.cause}"[:LONGEST_TEXT]


def log_outcome(outcome: JobOutcome, driver_jvm: Callable[[], JVMView], seconds: float) -> None:
    """Logs the last line of the process, behind what the JVM has to say.

    Args:
        outcome: Of the process.
        driver_jvm: Returns the driver's JVM, which is asked only if spark-submit has started it.
        seconds: How long the process has run.
    """
    if is_submitted():
        with suppress(Py4JError, OSError):  # it may have ended
            end_log(driver_jvm())
    log_end(outcome.exit_code, outcome.cause, seconds=round(seconds))
    if folder := os.environ.get(RUN_FOLDER):
        with suppress(OSError):  # a full disk: the script says it once more
            Path(folder, ENDED_FILE).touch()


def announce(
    outcome: JobOutcome, driver_jvm: Callable[[], JVMView], register: Callable[[], object]
) -> None:
    """Tells the platform of a failure. Must be the last step: YARN may end the process then.

    Args:
        outcome: Of the failure.
        driver_jvm: Returns the driver's JVM, which is asked only if spark-submit has started it.
        register: Starts Spark, without which YARN does not know the attempt.
    """
    if "KUBERNETES_SERVICE_HOST" in os.environ:
        with suppress(OSError):
            TERMINATION_LOG.write_text(str(outcome), encoding="utf-8")
    if not is_submitted():
        return
    jvm = driver_jvm()
    try:
        master = _application_master(jvm)
        if master is None:
            return
        if outcome.exit_code in FINAL and outcome.before_spark:
            register()
        failed = java_class(jvm, "org.apache.hadoop.yarn.api.records.FinalApplicationStatus").FAILED
        if outcome.exit_code in FINAL:
            master.unregister(failed, str(outcome))
        master.finish(failed, outcome.exit_code, str(outcome))
    except (Py4JError, TypeError) as error:  # py4j calls a missing class a package
        log.warning("outcome_not_announced", text=first_line(error))


def _application_master(jvm: JVMView) -> Any:  # noqa: ANN401 - a Java object
    """Returns YARN's application master, if it runs the driver (cluster deploy mode), else None."""
    try:
        holder = java_class(jvm, "java.lang.Class").forName(APPLICATION_MASTER)
    except Py4JError:
        return None
    for field in holder.getDeclaredFields():
        if field.getName().endswith("$master"):
            field.setAccessible(True)
            return field.get(None)
    return None
