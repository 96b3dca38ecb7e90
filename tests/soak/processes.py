"""The mirror's processes in a soak: a standing pair, or drains one after the other."""

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from replication.demo.play import MirrorProcess
from replication.errors import ClusterError, FlowError, LeaseError
from replication.model import Mode
from tests.support.local import SCRIPT
from tests.support.process_tree import family, kill_tree

HELD = re.compile(r"event=lease_held part=records epoch=(\d+)")
STARTED = "event=generation_started"
LOST = "event=lease_lost"


class Job:
    """One started mirror and what its log tells."""

    def __init__(self, config: Path, log: Path, arguments: Sequence[str]) -> None:
        self.config, self.log = config, log
        self.is_ours_to_end = False
        self._process = MirrorProcess(SCRIPT, ["--config", str(config), *arguments], log)

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._process.exit_code

    @property
    def epoch(self) -> int:
        """The epoch of the lease that it holds; 0 for none."""
        text = self._text()
        held = [match for match in HELD.finditer(text) if LOST not in text[match.end() :]]
        return int(held[-1][1]) if held else 0

    @property
    def generations(self) -> int:
        """The generations that it has started."""
        return self._text().count(STARTED)

    def kill(self) -> None:
        """SIGKILL for all its processes; executors on other machines notice by themselves."""
        self.is_ours_to_end = True
        if self.exit_code is None:
            kill_tree(self._process.pid)
        self.forget()

    def family(self) -> list[int]:
        """Its processes: the script, the driver's JVM and Python."""
        return family(self._process.pid)

    def stop(self) -> None:
        """Ends it as an operator would (SIGTERM), and waits."""
        self.is_ours_to_end = True
        self._process.discard()

    def forget(self) -> None:
        """Lets go of the process, which has ended."""
        self._process.discard()

    def _text(self) -> str:
        return self.log.read_text(errors="replace")


class Mirrors(ABC):
    """The processes of one flow.

    Args:
        folder: For logs.
        arguments: Further arguments of spark-submit.sh.
        say: Prints a line.
    """

    is_standing = True

    def __init__(self, folder: Path, arguments: Sequence[str], say: Callable[[str], None]) -> None:
        self._folder, self._arguments, self._say = folder, arguments, say
        self.started = 0
        self.ends: Counter[int] = Counter()
        self.bad_ends: list[str] = []

    @abstractmethod
    def attend(self) -> None:
        """Starts what has to run and does not."""

    @abstractmethod
    def jobs(self) -> list[Job]:
        """The jobs that were started last."""

    def active(self) -> Job | None:
        """The job that replicates now: the last one to hold the lease, with a started query."""
        living = [job for job in self.jobs() if job.exit_code is None and job.epoch]
        newest = max(living, key=lambda job: job.epoch, default=None)
        return newest if newest and newest.generations else None

    def stop(self) -> None:
        """Ends all jobs, those that wait first."""
        for job in sorted(self.jobs(), key=lambda job: job.epoch):
            job.stop()

    @abstractmethod
    def _may_end(self, job: Job, code: int) -> bool:
        """Whether *job* may end by itself with exit code *code*."""

    def _start(self, config: Path, *arguments: str) -> Job:
        self.started += 1
        log = self._folder / f"mirror-{self.started:03}-{config.parent.name}.log"
        return Job(config, log, [*arguments, *self._arguments])

    def _note_end(self, job: Job) -> None:
        code = job.exit_code
        if code is not None and not job.is_ours_to_end:
            self.ends[code] += 1
            text = f"a job ended by itself with exit code {code}: {job.log.name}"
            if code:
                self._say(f"  {text}")
            if not self._may_end(job, code):
                self.bad_ends.append(text)
        job.forget()


class Pair(Mirrors):
    """Machines; on each a mirror runs, and waits while another one replicates."""

    def __init__(
        self,
        folder: Path,
        arguments: Sequence[str],
        say: Callable[[str], None],
        configs: Sequence[Path],
        mode: Mode,
    ) -> None:
        super().__init__(folder, arguments, say)
        self._mode = mode
        self._jobs = [self._stand_by(config) for config in configs]

    def attend(self) -> None:
        for number, job in enumerate(self._jobs):
            if job.exit_code is not None:
                self._note_end(job)
                self._jobs[number] = self._stand_by(job.config)

    def jobs(self) -> list[Job]:
        return self._jobs

    def _may_end(self, job: Job, code: int) -> bool:
        # the other one has taken over; the script asks the source how many slots it needs
        never_ran = not job.generations
        return code == LeaseError.exit_code or (code == ClusterError.exit_code and never_ran)

    def _stand_by(self, config: Path) -> Job:
        return self._start(config, "--mode", self._mode, "--standby")


class Drains(Mirrors):
    """Drains one after the other, as a scheduler starts them."""

    is_standing = False

    def __init__(
        self,
        folder: Path,
        arguments: Sequence[str],
        say: Callable[[str], None],
        config: Path,
    ) -> None:
        super().__init__(folder, arguments, say)
        self._config = config
        self._job = self._start(config, "--mode", "drain")

    def attend(self) -> None:
        if self._job.exit_code is not None:
            self._note_end(self._job)
            self._job = self._start(self._config, "--mode", "drain")

    def jobs(self) -> list[Job]:
        return [self._job]

    def _may_end(self, job: Job, code: int) -> bool:
        # a cluster is down, or executors die again and again
        has_run = job.generations > 0
        return code in {0, ClusterError.exit_code} or (code == FlowError.exit_code and has_run)
