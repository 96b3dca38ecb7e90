"""Runs the mirror for a while under random faults, and checks that nothing is lost or repeated.

Processes, executors, workers and brokers are killed, topics and partitions are added, transactions
are held open. Between two faults records must flow again. `serve` runs beside the mirror. Prints
each fault, then a comparison of both sides and of the offset map with every record, and what grew.
Exit code 0 if all is right.
"""

import shutil
import sys
import time
from argparse import Namespace
from contextlib import suppress
from pathlib import Path
from random import Random

from replication.errors import ReplicationError
from tests.soak.faults import choose
from tests.soak.options import parsed
from tests.soak.report import Report
from tests.soak.scene import Scene, StuckError, running_scene
from tests.soak.verdict import history_of, judge
from tests.soak.view import ViewWatch
from tests.support.program import end_on_signals, new_console, new_folder_name
from tests.support.running_process import ProcessError

TELL_SECONDS = 600.0
"""From one word on what the operator has seen to the next."""


def main() -> int:
    """Runs a soak; returns 0 if nothing was lost, repeated or wrong, 130 if interrupted."""
    options = parsed(sys.argv[1:], __doc__ or "")
    end_on_signals()
    report = Report(new_console())
    folder = new_folder_name("soak")
    folder.mkdir(parents=True)
    report.say(f"mode {options.mode}, {options.seconds} s, --seed {options.seed}; logs: {folder}")
    try:
        is_right = _soak(folder, options, report)
    except KeyboardInterrupt:
        return 130
    except (ReplicationError, ProcessError) as error:
        report.say(f"PROBLEM the soak ended early: {error}")
        return 1
    if is_right:
        shutil.rmtree(folder)
    return 0 if is_right else 1


def _soak(folder: Path, options: Namespace, report: Report) -> bool:
    random = Random(options.seed)  # noqa: S311 - repeatable on purpose
    spared = options.spare_driver
    with running_scene(folder, options.mode, report.say, is_driver_spared=spared) as scene:
        problems = []
        with ViewWatch(scene) as view:
            try:
                _inflict(scene, options.seconds, random, report, view)
            except (ReplicationError, StuckError) as error:  # what is there can be compared
                problems.append(str(error))
                report.say(f"PROBLEM {error}")
        verdict = judge(scene, report.say)
        rows = history_of(scene)
        _tell(view, rows, report)
        verdict.problems.extend([*problems, *view.problems(rows)])
        report.show(verdict, scene)
    return not verdict.problems


def _inflict(scene: Scene, seconds: int, random: Random, report: Report, view: ViewWatch) -> None:
    """One fault after the other, until the time is over."""
    began = told_at = time.monotonic()
    scene.await_flow()
    report.say(f"records flow after {time.monotonic() - began:.1f} s")
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        spared = scene.is_driver_spared
        kind = choose(random, scene.load.partitions, is_driver_spared=spared)
        done = kind.inflict(scene, random)
        scene.await_flow(done.topics)
        report.fault(kind.name, done.text, time.monotonic() - done.since)
        if time.monotonic() - told_at > TELL_SECONDS:
            told_at = time.monotonic()
            with suppress(ReplicationError):  # the table is being written
                _tell(view, history_of(scene), report)


def _tell(view: ViewWatch, rows: list[float], report: Report) -> None:
    for line in view.told(rows):
        report.say(f"  {line}")


if __name__ == "__main__":
    sys.exit(main())
