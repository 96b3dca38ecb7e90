"""A job on machines that are not as expected: what can work works, and the rest is said."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from replication.config.home import home
from replication.demo.workload import create_topic
from tests.support.commands import QUICK_START, Completed, start_mirror
from tests.support.local import REPOSITORY, SCRIPT, Clusters, Until
from tests.support.mirror_files import write_config
from tests.support.process_tree import family
from tests.support.topics import assert_equal, copied, fill, send

pytestmark = [pytest.mark.cluster, pytest.mark.job]
as_root = pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0, reason="only root may change a host's name"
)

UNWANTED = shutil.ignore_patterns(".local", ".git", "tests", "__pycache__")
"""What a copy of the checkout does not need."""

STRANGE: Mapping[str, str] = {
    "SPARK_HOME": "/opt/another-spark",
    "SPARK_REMOTE": "sc://elsewhere",
    "PYTHONHOME": "/opt/another-python",
    "PYTHONWARNINGS": "error",
    "PYSPARK_DRIVER_PYTHON": "jupyter",
    "PYSPARK_GATEWAY_PORT": "1",
    "PYSPARK_SUBMIT_ARGS": "--master yarn pyspark-shell",
    "CDPATH": "/tmp:/usr",  # noqa: S108 - only searched
    "LC_ALL": "C",
    "TZ": "Asia/Kathmandu",
}
"""A shell's environment that other programs have filled."""


def drain(
    config: Path,
    *arguments: str,
    script: Path = SCRIPT,
    prefix: Sequence[str] = (),
    environ: Mapping[str, str] | None = None,
    options: Sequence[str] = (),
) -> Completed:
    """Runs a drain; *prefix* is a command that starts the script."""
    command = [
        *prefix,
        str(script),
        f"--config={config}",
        "--mode",
        "drain",
        *options,
        *QUICK_START,
    ]
    return subprocess.run(
        [*command, *arguments], cwd=REPOSITORY, env={**os.environ, **(environ or {})},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", check=False,
    )  # fmt: skip


@as_root
def test_a_job_runs_whatever_path_host_name_and_environment_it_has(
    clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    fill(clusters[0], topic_name, 1, 10)
    checkout = tmp_path / "my mörror's 100%"
    shutil.copytree(REPOSITORY, checkout, ignore=UNWANTED)
    link = tmp_path / "start"
    link.symlink_to(checkout / "spark-submit.sh")
    strange = tmp_path / "strange" / "pyspark"
    strange.mkdir(parents=True)
    (strange / "__init__.py").write_text("raise SystemExit('another PySpark')")
    start = 'hostname no-such-host; cd "$0"; exec "$@" <&-'
    name = ["unshare", "--uts", "sh", "-c", start, str(tmp_path)]
    scratch = tmp_path / "a scratch's 100%"
    environ = {
        **STRANGE,
        "REPLICATION_SCRATCH": str(scratch),
        "PYTHONPATH": str(strange.parent),
        "REPLICATION_HOME": os.path.relpath(home(), tmp_path),
    }

    done = drain(
        write_config(tmp_path, clusters, topic_name),
        script=link, prefix=name, environ=environ,
    )  # fmt: skip

    assert done.returncode == 0, done.stdout
    assert_equal(clusters, topic_name)
    assert list(scratch.iterdir()) == [], "a job leaves nothing"


@as_root
@pytest.mark.parametrize(
    ("options", "code"),
    [
        pytest.param(["-Djava.io.tmpdir={}"], 2, id="of Java"),
        pytest.param(["-DZstdTempFolder={}"], 6, id="of zstd"),
    ],
)
@pytest.mark.guarantee
def test_a_folder_without_programs_damages_no_record(
    clusters: Clusters, tmp_path: Path, topic_name: str, options: list[str], code: int
) -> None:
    compressed, plain = f"{topic_name}-z", f"{topic_name}-p"
    create_topic(clusters[0].bootstrap, compressed, 1, {"compression.type": "zstd"})
    send(clusters[0], compressed, 1, 10)
    fill(clusters[0], plain, 1, 10)
    folder = tmp_path / "noexec"
    folder.mkdir()
    mount = f'mount -t tmpfs -o noexec tmpfs {folder} && exec "$0" "$@"'
    java = " ".join(option.format(folder) for option in options)

    done = drain(
        write_config(tmp_path, clusters, f"{topic_name}-.*"),
        *("--driver-java-options", java),
        prefix=["unshare", "--mount", "sh", "-c", mount],
        environ={"TMPDIR": str(folder), "JAVA_TOOL_OPTIONS": f"-Djava.io.tmpdir={folder}"},
    )

    assert done.returncode == code, done.stdout
    assert "kafka-delete-records" not in done.stdout
    assert "noexec" in done.stdout
    assert "-Djava.io.tmpdir=FOLDER" in done.stdout
    if code == 6:
        assert f"{compressed}-0 cannot be read here, for no fault of its records" in done.stdout
        assert_equal(clusters, plain)


@as_root
def test_a_set_up_that_cannot_be_written_runs_a_newer_checkout(
    clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    fill(clusters[0], topic_name, 1, 10)
    checkout = tmp_path / "newer"
    shutil.copytree(REPOSITORY, checkout, ignore=UNWANTED)
    with (checkout / "replication" / "model.py").open("a") as module:
        module.write("\n# an update of the checkout\n")
    read_only = 'mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && shift && exec "$@"'
    config = write_config(tmp_path, clusters, topic_name)
    start = ["unshare", "--mount", "sh", "-c", read_only, "-", str(home())]
    places = {"REPLICATION_HOME": str(home()), "REPLICATION_CACHE": str(tmp_path / "cache")}
    script = checkout / "spark-submit.sh"

    shown = drain(config, script=script, prefix=start, environ=places, options=["--dry-run"])
    done = drain(config, script=script, prefix=start, environ=places)

    assert shown.returncode == 2, "where nothing is started, nothing has a folder of its own"
    assert "run ./spark-submit.sh --setup as a user who may write there" in shown.stdout
    assert done.returncode == 0, done.stdout
    assert_equal(clusters, topic_name)


def test_a_job_without_open_files_names_the_limit_and_goes_on(
    clusters: Clusters, tmp_path: Path, topic_name: str, until: Until
) -> None:
    source, _ = clusters
    fill(source, topic_name, 4, 40)
    config = write_config(tmp_path, clusters, topic_name, {"replication.mode": "realtime"})
    mirror = start_mirror(config, tmp_path / "log")

    def await_copies(count: int) -> None:
        until(lambda: mirror.exit_code is not None or copied(clusters, topic_name) == count, 60)
        mirror.check()

    try:
        await_copies(40)
        names = {pid: Path(f"/proc/{pid}/comm").read_text() for pid in family(mirror.pid)}
        java = next(str(pid) for pid, name in names.items() if name == "java\n")
        limit = ["prlimit", "--pid", java]
        subprocess.run([*limit, "--nofile=100:4096"], check=True)
        until(lambda: "event=open_files" in mirror.log.read_text(), 60)
        subprocess.run([*limit, "--nofile=4096:4096"], check=True)
        send(source, topic_name, 4, 40)
        await_copies(80)
        mirror.stop()
    finally:
        mirror.discard()

    log = mirror.log.read_text()
    assert "ulimit -n" in log
    assert "script_lost" not in log
    assert_equal(clusters, topic_name)
