"""What a machine lacked when a query failed there, and the next step. Pure.

Whatever Kafka's client meets while it reads a record, it calls an exception of that record. So what
says that the machine is to blame is looked for first: the records are sound then.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from replication.errors import first_line
from replication.spark.causes import Cause
from replication.spark.interceptor import INTERCEPTOR


@dataclass(frozen=True, slots=True)
class MachineTrouble:
    """What a process met, with the next step, and whether another attempt there meets it again."""

    text: str
    is_lasting: bool


_NATIVE: Final = frozenset({"java.lang.UnsatisfiedLinkError", "org.xerial.snappy.SnappyError"})
_CLASS: Final = frozenset({"java.lang.LinkageError", "java.lang.ReflectiveOperationException"})
"""What a class that cannot be loaded, or does not fit the others, is one of."""

_TASK: Final = re.compile(r"\(TID \d+\) \((\S+) executor ")

NATIVE_STEP: Final = (
    "zstd and snappy unpack a native library into the folder of java.io.tmpdir: let it be writable "
    "there and mounted without noexec, or name another one in Spark's Java options with "
    "-Djava.io.tmpdir=FOLDER, and start the job again"
)
CLASS_STEP: Final = (
    "a class cannot be loaded there: pass its jar, in the version that the others need, with "
    "--jars or CLIENT_JARS, and start the job again"
)
PASSING: Final[Mapping[str, str]] = MappingProxyType(
    {
        "java.lang.OutOfMemoryError": (
            "give it more memory with DRIVER_MEMORY or spark.executor.memory"
        ),
        "Too many open files": (
            "raise its limit of open files with ulimit -n, in a systemd unit with LimitNOFILE="
        ),
        "No space left on device": "free space there, also in the folder of java.io.tmpdir",
        "Disk quota exceeded": "free space there, also in the folder of java.io.tmpdir",
        "Read-only file system": "let the folders of java.io.tmpdir and state.dir be writable",
    }
)
"""What may be over at the next attempt, and the next step."""


def machine_trouble(causes: Sequence[Cause]) -> MachineTrouble | None:
    """Returns what a machine lacked, if one of *causes* is that."""
    if any(_CLASS & {*cause.classes} and cause.text == INTERCEPTOR for cause in causes):
        return None  # a jar of ours: `failures` knows more
    tasks = (_TASK.search(cause.text) for cause in causes)  # Spark's text begins with it
    where = next((f"Spark's process on {task[1]}" for task in tasks if task), "Spark's process")
    for cause in causes:
        words = cause.text if cause.classes[0].startswith(("java.io.", "java.nio.")) else ""
        for known, step in PASSING.items():
            # the operating system's errors have no class in Java, but a text
            if known in cause.classes or (" " in known and known in words):
                return MachineTrouble(f"{where} met: {known}; {step}", is_lasting=False)
        met = first_line(f"{cause.classes[0]}: {cause.text}")
        if cause.classes[0] in _NATIVE:
            return MachineTrouble(f"{where} met: {met}; {NATIVE_STEP}", is_lasting=True)
        if not _CLASS.isdisjoint(cause.classes):
            # it was the first attempt to load the class that said more
            step = NATIVE_STEP if cause.text.startswith("Could not initialize") else CLASS_STEP
            return MachineTrouble(f"{where} met: {met}; {step}", is_lasting=True)
    return None
