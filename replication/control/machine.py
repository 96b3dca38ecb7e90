"""What this machine must have before Spark starts on it: looked at once, a line for each problem.

`look` reads the facts, `problems` and `warnings` judge them. They ask no cluster and start nothing.
"""

import os
import resource
import socket
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from replication.config.checks import idle_job_problem, local_state_problem
from replication.config.file import missing_files
from replication.config.home import OUR_JAR, home
from replication.config.tree import MirrorConfig
from replication.model import Job, is_local_mode, local_slots
from replication.state.folder import local_path


def start_problems(config: MirrorConfig, master: str, job: Job | None = None) -> list[str]:
    """Returns one line for each reason why *job*, or any job, cannot run on *master*.

    Args:
        config: The configuration.
        master: Spark's master. Files that *config* names must be there if it is a local one.
        job: The job; None to leave out what depends on it.
    """
    return [
        *filter(None, [local_state_problem(config.state_dir, master)]),
        *(missing_files(config) if is_local_mode(master) else ()),
        *filter(None, [idle_job_problem(config, job) if job else None]),
    ]


SEPARATORS: Final = ",:"
"""Between paths in a list of Spark's, and in a class path of Java's."""

SCRATCH: Final = "REPLICATION_SCRATCH"
NAMED_ELSEWHERE: Final = ("SPARK_LOCAL_IP", "SPARK_LOCAL_HOSTNAME")
CLEANED: Final = ("/tmp/", "/var/tmp/")  # noqa: S108 - named, not used
OWN_RIGHTS: Final = 0o700
NOEXEC: Final[int] = getattr(os, "ST_NOEXEC", 0)  # Python knows it on Linux only
OURS: Final = "ours"
CONTAINER_MEMORY: Final = Path("/sys/fs/cgroup/memory.max")
SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MachinePlace:
    """A file or folder of a job.

    Args:
        name: What it is, for an operator.
        path: Where it is.
        is_listed: Whether Spark or Java has it in a list of paths.
        is_lasting: Whether a job needs it as long as it runs.
        obstacle: Why a job cannot use it; empty if it can.
    """

    name: str
    path: str
    is_listed: bool = False
    is_lasting: bool = False
    obstacle: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What was seen.

    Args:
        host: Its name.
        has_address: Whether that name resolves, or the environment names another one.
        has_local_ip: Whether ``SPARK_LOCAL_IP`` is an address of this machine, or not set.
        umask: What is taken from the rights of new files.
        memory_mb: All memory; 0 if unknown.
        places: The files and folders of a job.
        other_spark: The Spark that ``spark-env.sh`` starts in place of ours; empty if none.
    """

    host: str
    has_address: bool = True
    has_local_ip: bool = True
    umask: int = 0o022
    memory_mb: int = 0
    places: tuple[MachinePlace, ...] = ()
    other_spark: str = ""


def problems(machine: Machine, master: str) -> list[str]:
    """Returns a line for each reason why a driver on *machine* cannot run with this *master*."""
    found = [line for place in machine.places for line in _place_problems(place)]
    if not machine.has_local_ip:
        found.append("SPARK_LOCAL_IP is no address of this machine: correct it, or unset it")
    elif not machine.has_address and not is_local_mode(master):
        found.append(
            f"the host name {machine.host!r} has no address, so that executors cannot reach the "
            "driver: add it to /etc/hosts, or set SPARK_LOCAL_IP to an address of this machine"
        )
    if machine.other_spark:
        found.append(
            f"SPARK_CONF_DIR has a spark-env.sh that sets SPARK_HOME={machine.other_spark}, which "
            "would start another Spark than the one of this set-up: unset SPARK_CONF_DIR, or name "
            "a folder whose spark-env.sh leaves SPARK_HOME alone"
        )
    if machine.umask & OWN_RIGHTS:
        found.append(
            f"umask {machine.umask:04o} takes your own rights to files that a job creates: set "
            "umask 022 or 077"
        )
    return found


def warnings(machine: Machine, heap_mb: int) -> list[str]:
    """Returns what an operator of *machine* should know, though a job with that heap can start."""
    found = [
        f"{place.name} {place.path} lies in a folder that systems clean after days: move it"
        for place in machine.places
        if place.is_lasting and place.path.startswith(CLEANED)
    ]
    if 0 < machine.memory_mb < heap_mb:
        found.append(
            f"the driver's heap may grow to {heap_mb} MB, and this machine has "
            f"{machine.memory_mb} MB: set DRIVER_MEMORY to less"
        )
    return found


def _place_problems(place: MachinePlace) -> list[str]:
    found = []
    try:
        place.path.encode()
    except UnicodeEncodeError:
        found.append(f"{place.name} {place.path!a} is not UTF-8, and Java cannot open that: rename")
    if place.is_listed and (bad := [char for char in SEPARATORS if char in place.path]):
        found.append(
            f"{place.name} {place.path} has {bad[0]!r} in its path, which separates paths in lists "
            "of Spark and Java: move it"
        )
    if place.obstacle:
        found.append(f"{place.name} {place.path} {place.obstacle}")
    return found


def look(config: MirrorConfig, environ: Mapping[str, str]) -> Machine:
    """Looks at this machine, for a driver that runs *config*."""
    mask = os.umask(0)
    os.umask(mask)
    host = socket.gethostname()
    state = local_path(config.state_dir)
    places = [
        MachinePlace(
            name="the checkout", path=str(OUR_JAR.parents[2]), is_listed=True, is_lasting=True
        ),
        MachinePlace(name="REPLICATION_HOME", path=str(home()), is_listed=True, is_lasting=True),
        MachinePlace(name=SCRATCH, path=environ.get(SCRATCH, ""), is_listed=True),
        MachinePlace(name="the configuration", path=config.file),
        *(
            _writable(f"the folder {path} of SPARK_LOCAL_DIRS", Path(path))
            for path in environ.get("SPARK_LOCAL_DIRS", "").split(",")
            if path
        ),
        *([replace(_writable("state.dir", state), is_lasting=True)] if state else []),
        _temporary(),
    ]
    return Machine(
        host=host,
        has_address=any(environ.get(name) for name in NAMED_ELSEWHERE) or _resolves(host),
        has_local_ip=_is_own(environ.get("SPARK_LOCAL_IP", "")),
        umask=mask,
        memory_mb=_memory_mb(),
        places=tuple(places),
        other_spark=_other_spark(environ.get("SPARK_CONF_DIR", "")),
    )


def open_files_limit() -> int | None:
    """Returns how many files a JVM may open, with the soft limit raised; None if any number."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return None if hard == resource.RLIM_INFINITY else hard


def slots_of(master: str) -> int | None:
    """Returns the task slots of a local *master*, ``*`` for the cores; None where it names none."""
    return os.cpu_count() if master.startswith("local[*") else local_slots(master)


def _writable(name: str, folder: Path) -> MachinePlace:
    """Returns *folder*, or the nearest one above it that is there, in which a job creates it."""
    found = next(path for path in (folder, *folder.parents) if path.exists() or path == path.parent)
    obstacle = ""
    if not found.is_dir():
        obstacle = f"cannot be a folder, because {found} is a file: name another path"
    elif not os.access(found, os.W_OK | os.X_OK):
        obstacle = f"cannot be written by this user in {found}: change its owner, or name another"
    return MachinePlace(name=name, path=str(folder), obstacle=obstacle)


def _temporary() -> MachinePlace:
    try:
        return MachinePlace(name="the temporary folder", path=tempfile.gettempdir())
    except OSError as error:
        step = "let one of them be writable, or set TMPDIR"
        return MachinePlace(
            name="the temporary folder", path="", obstacle=f"is missing: {error}; {step}"
        )


def java_temporary_obstacle(folder: str) -> str:
    """Returns why Java cannot load a library from *folder*, and the next step; "" if it can."""
    step = "name another folder in the driver's Java options with -Djava.io.tmpdir=FOLDER"
    if not os.access(folder, os.W_OK | os.X_OK):
        return f"java.io.tmpdir {folder} cannot be written by this user: {step}"
    if os.statvfs(folder).f_flag & NOEXEC:
        return (
            f"java.io.tmpdir {folder} is mounted with noexec, so that Java cannot load the native "
            f"libraries which read topics compressed by zstd or snappy: {step}"
        )
    return ""


def _resolves(host: str) -> bool:
    try:
        return bool(socket.getaddrinfo(host, None))
    except (OSError, UnicodeError):
        return False


def _is_own(address: str) -> bool:
    if not address:
        return True
    try:
        family, kind, _, _, place = socket.getaddrinfo(address, 0, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as probe:
            probe.bind(place)
    except (OSError, UnicodeError):
        return False
    return True


def _other_spark(conf_dir: str) -> str:
    """Returns the SPARK_HOME that *conf_dir*'s ``spark-env.sh`` sets; empty if it sets none."""
    script = Path(conf_dir, "spark-env.sh")
    if not conf_dir or not script.is_file():
        return ""
    program = '. "$0" >/dev/null 2>&1 </dev/null; printf %s "$SPARK_HOME"'
    environ = {**os.environ, "SPARK_HOME": OURS}
    try:
        done = subprocess.run(  # noqa: S603 - spark-submit runs it as well
            ["bash", "-c", program, str(script)],  # noqa: S607
            env=environ,
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    found = os.fsdecode(done.stdout)
    return "" if found == OURS else found


def _memory_mb() -> int:
    """Returns all memory of this machine, or of this container; 0 if unknown."""
    try:
        found = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        with suppress(OSError, ValueError):  # "max" where there is no limit
            found = min(found, int(CONTAINER_MEMORY.read_text()))
    except (ValueError, OSError):
        return 0
    return found // 2**20
