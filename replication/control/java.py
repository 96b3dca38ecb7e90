"""Which Java a start on this machine takes, and whether Spark runs on it."""

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

OLDEST: Final = 17
NEWEST: Final = 25
STEP: Final = "install a JDK 17 or 21, or set JAVA_HOME to one"
SECONDS: Final = 30.0
_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)[^"]*"')


def look(environ: Mapping[str, str]) -> tuple[str, str]:
    """Returns what Java says of itself, and why Spark does not run on it; "" if it does."""
    java_home = environ.get("JAVA_HOME")
    java = str(Path(java_home, "bin", "java")) if java_home else "java"
    try:
        done = subprocess.run(  # noqa: S603 - a start runs it, too
            [java, "-version"],
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return "", f"{java} cannot be run ({error}); {STEP}"
    return judge(java, done.stdout.decode(errors="replace"))


def judge(java: str, answer: str) -> tuple[str, str]:
    """Returns what follows from the *answer* to ``-version`` of the program *java*."""
    version = _VERSION.search(answer)
    if version is None:
        said = " ".join(answer.split())
        return "", f"{java} does not say its version ({said or 'no answer'}); {STEP}"
    if not OLDEST <= int(version[1]) <= NEWEST:
        text = f"{java} is Java {version[1]}, Spark 4.2 runs on {OLDEST} to {NEWEST}; {STEP}"
        return version[0], text
    return f"{java}, {version[0]}", ""
