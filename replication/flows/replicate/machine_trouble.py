"""What a machine lacked when a query failed there, and the next step. Pure.

Whatever Kafka's client meets while it reads a record, it calls an exception of that record. So what
says that the machine is to blame is looked for first: the records are sound then.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from replication.spark.interceptor import INTERCEPTOR


@dataclass(frozen=True, slots=True)
class MachineTrouble:
    """What a process met, with the next step, and whether another attempt there meets it again."""

    text: str
    is_lasting: bool


_NATIVE: Final = re.compile(
    r"(?:java\.lang\.UnsatisfiedLinkError|org\.xerial\.snappy\.SnappyError): [^\n]+"
)
_CLASS: Final = re.compile(
    r"java\.lang\.(?:NoClassDefFoundError|ExceptionInInitializerError|ClassNotFoundException"
    r"|NoSuchMethodError|NoSuchFieldError|AbstractMethodError|IllegalAccessError|InstantiationError"
    r"|IncompatibleClassChangeError|ClassFormatError|UnsupportedClassVersionError|VerifyError"
    r"|BootstrapMethodError|LinkageError)(?:: [^\n]+)?"
)
"""Java's errors of a class that cannot be loaded or does not fit the others."""

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


def machine_trouble(text: str) -> MachineTrouble | None:
    """Returns what a machine lacked, if that is what *text* of Spark is about."""
    if INTERCEPTOR in text and "cannot be found" in text:
        return None  # a jar of ours: `failures` knows more
    where = f"Spark's process on {task[1]}" if (task := _TASK.search(text)) else "Spark's process"
    for words, step in PASSING.items():
        if words in text:
            return MachineTrouble(f"{where} met: {words}; {step}", is_lasting=False)
    if found := _NATIVE.search(text):
        return MachineTrouble(f"{where} met: {found[0]}; {NATIVE_STEP}", is_lasting=True)
    if found := _CLASS.search(text):
        # it was the first attempt to load the class that said more
        step = NATIVE_STEP if "Could not initialize" in found[0] else CLASS_STEP
        return MachineTrouble(f"{where} met: {found[0]}; {step}", is_lasting=True)
    return None
