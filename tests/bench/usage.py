"""CPU and memory used by a process and its descendants, read from Linux's /proc.

The load generator and the brokers are not descendants of a contender, so they never count.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from tests.support.process_tree import PROC, family, stats

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
# Names of the JVM's own threads; the kernel keeps 15 characters. The serial collector, which is
# not used here, would work in "VM Thread".
GC_THREADS = ("GC Thread", "G1 ", "ZWorker", "ZDriver", "Shenandoah", "VM Thread")
JIT_THREADS = ("C1 Compiler", "C2 Compiler")

# Indexes of the fields of /proc/PID/stat after the name, which may contain spaces and brackets.
USER, CHILDREN_SYSTEM = 11, 14


@dataclass(frozen=True, slots=True)
class Usage:
    """Usage of a process tree since its start. Subtract two for the usage between them."""

    cpu_seconds: float = 0.0
    gc_seconds: float = 0.0
    jit_seconds: float = 0.0
    peak_rss_bytes: int = 0

    def __sub__(self, earlier: "Usage") -> "Usage":
        return Usage(
            self.cpu_seconds - earlier.cpu_seconds,
            self.gc_seconds - earlier.gc_seconds,
            self.jit_seconds - earlier.jit_seconds,
            self.peak_rss_bytes,
        )


def usage(*pids: int) -> Usage:
    """The usage of the trees under *pids*; zero for a process that no longer exists."""
    tree = list(dict.fromkeys(member for pid in pids for member in family(pid)))
    threads = [stat for member in tree for stat in stats((PROC / str(member)).glob("task/*/stat"))]
    return Usage(
        # A parent's fields include the times of the children that it has waited for.
        sum(_seconds(fields, CHILDREN_SYSTEM) for _, _, fields in stats(map(_stat, tree))),
        sum(
            _seconds(fields, USER + 1) for _, name, fields in threads if name.startswith(GC_THREADS)
        ),
        sum(
            _seconds(fields, USER + 1)
            for _, name, fields in threads
            if name.startswith(JIT_THREADS)
        ),
        sum(map(_peak_rss_bytes, tree)),
    )


def _stat(pid: int) -> Path:
    return PROC / str(pid) / "stat"


def _seconds(fields: list[str], last: int) -> float:
    return sum(map(int, fields[USER : last + 1])) / TICKS_PER_SECOND


def _peak_rss_bytes(pid: int) -> int:
    try:
        lines = (PROC / str(pid) / "status").read_text(errors="replace").splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))
