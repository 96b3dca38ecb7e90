"""Runs the mirror for a while under random faults, and checks that nothing is lost or repeated.

Processes, executors, workers and brokers are killed, topics and partitions are added, transactions
are held open. Between two faults records must flow again. Prints each fault, then a comparison of
both sides and of the offset map with every record. Exit code 0 if all is right.
"""

import shutil
import sys
import time
from pathlib import Path
from random import Random

from replication.errors import ReplicationError
from replication.model import Mode
from tests.soak.faults import choose
from tests.soak.options import parsed
from tests.soak.report import Report
from tests.soak.scene import Scene, StuckError, running_scene
from tests.soak.verdict import judge
from tests.soak.view import ViewWatch
from tests.support.program import end_on_signals, new_console, new_folder_name
from tests.support.running_process import ProcessError


def main() -> int:
    """Runs a soak; returns 0 if nothing was lost, repeated or wrong, 130 if interrupted."""
    options = parsed(sys.argv[1:], __doc__ or "")
    end_on_signals()
    report = Report(new_console())
    folder = new_folder_name("soak")
    folder.mkdir(parents=True)
    report.say(f"mode {options.mode}, {options.seconds} s, --seed {options.seed}; logs: {folder}")
    try:
        is_right = _soak(folder, options.mode, options.seconds, Random(options.seed), report)  # noqa: S311 - repeatable on purpose
    except KeyboardInterrupt:
        return 130
    except (ReplicationError, ProcessError) as error:
        report.say(f"PROBLEM the soak ended early: {error}")
        return 1
    if is_right:
        shutil.rmtree(folder)
    return 0 if is_right else 1


def _soak(folder: Path, mode: Mode, seconds: int, random: Random, report: Report) -> bool:
    with running_scene(folder, mode, report.say) as scene:
        problems = []
        with ViewWatch(scene.configs[0]) as view:
            try:
                _inflict(scene, seconds, random, report)
            except (ReplicationError, StuckError) as error:  # what is there can be compared
                problems.append(str(error))
                report.say(f"PROBLEM {error}")
        report.say(view.text())
        problems += view.problems()
        verdict = judge(scene, report.say)
        verdict.problems.extend(problems)
        report.show(verdict, scene)
    return not verdict.problems


def _inflict(scene: Scene, seconds: int, random: Random, report: Report) -> None:
    """One fault after the other, until the time is over."""
    began = time.monotonic()
    scene.await_flow()
    report.say(f"records flow after {time.monotonic() - began:.1f} s")
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        kind = choose(random, scene.load.partitions)
        done = kind.inflict(scene, random)
        scene.await_flow(done.topics)
        report.fault(kind.name, done.text, time.monotonic() - done.since)


if __name__ == "__main__":
    sys.exit(main())
