"""Where a secret of the configuration must not be: logs, tables, Spark's event log, pages, `ps`."""

import json
import stat
import subprocess
from pathlib import Path

import pytest

from replication.demo.brokers import free_port
from replication.demo.play import MirrorProcess
from replication.model import Flow
from replication.state.delta import DeltaReader
from replication.state.schemas import SCHEMAS
from tests.support.commands import QUICK_START, replication
from tests.support.driver import page
from tests.support.local import PYTHON, REPOSITORY, SCRIPT, Clusters
from tests.support.mirror_files import write_config
from tests.support.process_tree import arguments_of
from tests.support.secured import USER_PASSWORD, Secured
from tests.support.topics import copied, fill
from tests.support.waiting import wait_until

PAGES = ("/metrics", "/livez", "/readyz", "/status")

pytestmark = [pytest.mark.cluster, pytest.mark.spark, pytest.mark.job, pytest.mark.timeout(1200)]


@pytest.mark.guarantee
def test_no_secret_is_seen_anywhere(
    clusters: Clusters, secured: Secured, tmp_path: Path, topic_name: str
) -> None:
    both = (clusters[0], secured.broker)
    fill(both[0], topic_name, 1, 50)
    target = secured.client("SCRAM")
    key = secured.certificates.folder.joinpath("client.key").read_text()
    target |= {"ssl.keystore.type": "PEM", "ssl.keystore.key": key}
    target["ssl.keystore.certificate.chain"] = secured.certificates.folder.joinpath(
        "client.crt"
    ).read_text()
    port = free_port()
    config = write_config(tmp_path, both, topic_name, {"B": target, "metrics.port": port})
    events = tmp_path / "events"
    events.mkdir()
    settings = (
        "spark.eventLog.enabled=true",
        "spark.eventLog.compress=false",  # so that it can be searched
        f"spark.eventLog.dir={events.as_uri()}",
    )
    conf = [word for setting in settings for word in ("--conf", setting)]
    arguments = ["--config", str(config), "--mode", "microbatch", *QUICK_START, *conf]

    mirror = MirrorProcess(SCRIPT, arguments, tmp_path / "mirror.log")
    try:

        def is_copied() -> bool:
            mirror.check()
            return copied(both, topic_name) == 50

        wait_until(is_copied, 200)
        seen = arguments_of(mirror.pid)
        plan = replication("plan", config)
        pages = {path: page(port, path) for path in PAGES}
        status = replication("status", config, "--json")
        mirror.stop()
    finally:
        mirror.discard()

    state = tmp_path / "state"
    rows = {table: DeltaReader(state.as_uri()).rows(table, Flow("A", "B")) for table in SCHEMAS}
    files = [file for file in (*state.rglob("*"), *events.rglob("*")) if file.is_file()]
    places = {
        "arguments": seen,
        "plan": plan.stdout + plan.stderr,
        "status": status.stdout + status.stderr,
        "log": mirror.log.read_text(),
        "tables": json.dumps(rows, default=str),
        **{path: text for path, (_, text) in pages.items()},
        **{str(file): file.read_text(errors="replace") for file in files},
    }
    secrets = (USER_PASSWORD, "p=ss w", secured.certificates.password, key.splitlines()[3])
    assert [
        (place, secret) for place, text in places.items() for secret in secrets if secret in text
    ] == []
    assert plan.returncode == 0, plan.stderr
    assert json.loads(status.stdout)["flows"][0]["last_word"]["state"] == "running"
    assert any("spark.redaction.regex" in places[str(file)] for file in files)
    assert str(config) in seen
    assert {path: status for path, (status, _) in pages.items()} == dict.fromkeys(PAGES, 200)
    assert topic_name in places["tables"]
    assert stat.S_IMODE(state.stat().st_mode) == 0o700


def test_nothing_is_imported_from_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "yaml.py").write_text("raise SystemExit('run')")
    config = tmp_path / "mirror.yaml"
    config.write_text("clusters: [A, B]\n")
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))

    done = subprocess.run(
        [str(PYTHON), "-m", "replication", "validate", str(config)],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert "A.bootstrap.servers: missing" in done.stderr
