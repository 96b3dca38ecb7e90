"""Who may speak to a job that runs on this machine: nobody from elsewhere, and no stranger."""

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from replication.config.metrics_settings import is_loopback
from replication.demo.play import MirrorProcess
from tests.support.commands import QUICK_START
from tests.support.listening import listening
from tests.support.local import REPOSITORY, SCRIPT, Clusters, Until
from tests.support.mirror_files import write_config
from tests.support.process_tree import family
from tests.support.topics import copied, fill

pytestmark = [pytest.mark.cluster, pytest.mark.job]

PAGE = ("--conf", "spark.ui.enabled=true")


@pytest.mark.guarantee
def test_a_job_listens_on_this_machine_only_and_answers_no_stranger(
    clusters: Clusters, tmp_path: Path, topic_name: str, until: Until
) -> None:
    fill(clusters[0], topic_name, 2, 100)
    file = write_config(tmp_path, clusters, topic_name, {"emit.heartbeats.enabled": False})
    log = tmp_path / "mirror.log"
    mirror = MirrorProcess(SCRIPT, ["--config", str(file), *QUICK_START, *PAGE], log)
    try:
        until(lambda: copied(clusters, topic_name) >= 100, 60)
        found = listening(family(mirror.pid))
        answers = stranger(found)
    finally:
        mirror.discard()

    assert len(found) >= 4, "Spark's RPC and blocks, its page, and py4j's gateway"
    assert {host for host, _ in found if not is_loopback(host)} == set()
    assert [line for line in answers if " refused " not in line] == []
    assert len(answers) == len(found)
    assert "event=door_open" not in log.read_text(encoding="utf-8")


def stranger(addresses: Iterable[tuple[str, int]]) -> list[str]:
    """What a process without a secret hears from each of *addresses*."""
    names = [f"{host}:{port}" for host, port in addresses]
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.stranger", *names],
        cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=240,
    )  # fmt: skip
    return done.stdout.splitlines()
