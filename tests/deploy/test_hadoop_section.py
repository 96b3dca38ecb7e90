"""A job and the commands by the section ``hadoop.``, on a file system that exists by it only.

Hadoop's viewfs is a table of mounts in its configuration.
"""

from pathlib import Path

import pytest

from replication.demo.topic_log import log_ends
from replication.model import Flow
from tests.support.commands import replication, start_mirror
from tests.support.flows import unique_flow
from tests.support.local import Clusters
from tests.support.mirror_files import write_config
from tests.support.process_tree import arguments_of
from tests.support.topics import assert_copies, fill
from tests.support.waiting import wait_until

pytestmark = [
    *(pytest.mark.cluster, pytest.mark.job, pytest.mark.soak, pytest.mark.timeout(900)),
]

SECRET = "a-secret-of-object-storage"  # noqa: S105 - of nothing


@pytest.fixture
def flow() -> Flow:
    return unique_flow()


@pytest.fixture
def config(clusters: Clusters, tmp_path: Path, topic_name: str, flow: Flow) -> Path:
    state = tmp_path / "mounted"
    state.mkdir()
    more = {
        "state.dir": f"viewfs://{flow.slug}/state",
        "groups": [topic_name],
        "hadoop": {
            f"fs.viewfs.mounttable.{flow.slug}.link./state": state.as_uri(),
            "fs.s3a.secret.key": SECRET,
        },
    }
    return write_config(tmp_path, clusters, topic_name, more, flow)


def test_a_job_is_started_asked_and_stopped(
    clusters: Clusters, config: Path, flow: Flow, tmp_path: Path, topic_name: str
) -> None:
    remote = f"{flow.source}.{topic_name}"
    fill(clusters[0], topic_name, 1, 1000)
    log = tmp_path / "mirror.log"

    mirror = start_mirror(config, log, "--mode", "microbatch")
    try:

        def is_copied() -> bool:
            mirror.check()
            return log_ends(clusters[1].bootstrap, [remote]).get(remote, 0) == 1000

        wait_until(is_copied, 200)
        arguments = arguments_of(mirror.pid)
        stopped = replication("stop", config)
    finally:
        mirror.discard()
    where = ("--flow", str(flow), "--topic", topic_name, "--partition", "0", "--offset", "500")
    translated = replication("translate", config, *where)

    assert (stopped.returncode, stopped.stdout) == (0, f"{flow} stopped\n"), stopped.stderr
    assert (translated.returncode, "500" in translated.stdout) == (0, True), translated.stderr
    assert_copies(clusters, {topic_name: remote})
    assert (tmp_path / "mounted" / "offset_runs" / "_delta_log").is_dir()
    files = [file for file in (tmp_path / "mounted").rglob("*") if file.is_file()]
    seen = "\n".join(file.read_text(errors="replace") for file in [*files, log])
    assert SECRET not in arguments + seen + stopped.stderr + translated.stderr
