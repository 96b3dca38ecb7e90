"""state.dir on S3: two drains in a row, the commands, and a stop, on a server of its own.

How to reach it is in Hadoop's own file, or in the section ``hadoop.`` of the mirror's. The server
is moto's, in an environment of its own: MOTO_SERVER names its program.
"""

import re
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from replication.demo.topic_log import log_ends
from replication.model import Flow
from tests.support.commands import replication, spark_submit
from tests.support.flows import unique_flow
from tests.support.local import SCRIPT, Clusters, Until
from tests.support.mirror_files import write_config
from tests.support.running_process import RunningProcess
from tests.support.s3 import BUCKET, s3_server
from tests.support.topics import assert_copies, fill, send

pytestmark = [
    *(pytest.mark.cluster, pytest.mark.job, pytest.mark.soak, pytest.mark.timeout(1500)),
]

SECONDS = 240.0


@pytest.fixture(scope="module")
def access(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, str]]:
    """Hadoop's settings for a server with an empty bucket."""
    with s3_server(tmp_path_factory.mktemp("s3")) as settings:
        yield settings


@pytest.fixture
def flow() -> Flow:
    return unique_flow()


@pytest.fixture(params=["HADOOP_CONF_DIR", "hadoop."])
def config(
    request: pytest.FixtureRequest,
    access: Mapping[str, str],
    clusters: Clusters,
    tmp_path: Path,
    topic_name: str,
    flow: Flow,
    monkeypatch: pytest.MonkeyPatch,
) -> Path:
    """A configuration of which either place tells how to reach the bucket."""
    more = {"state.dir": f"s3a://{BUCKET}/{flow.slug}", "groups": [topic_name]}
    if request.param == "hadoop.":
        monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
        return write_config(tmp_path, clusters, topic_name, {**more, "hadoop": access}, flow)
    lines = [f"<property><name>{k}</name><value>{v}</value></property>" for k, v in access.items()]
    (tmp_path / "core-site.xml").write_text(f"<configuration>{''.join(lines)}</configuration>")
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    return write_config(tmp_path, clusters, topic_name, more, flow)


def test_two_drains_and_the_commands(
    clusters: Clusters, config: Path, flow: Flow, topic_name: str
) -> None:
    fill(clusters[0], topic_name, 1, 1000)
    first = spark_submit(config, "--mode", "drain")
    send(clusters[0], topic_name, 1, 1000)
    second = spark_submit(config, "--mode", "drain")
    where = ("--flow", str(flow), "--topic", topic_name, "--partition", "0", "--offset", "1500")

    translated = replication("translate", config, *where)

    assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr
    assert (translated.returncode, "1500" in translated.stdout) == (0, True), translated.stderr
    assert_copies(clusters, {topic_name: f"{flow.source}.{topic_name}"})


def test_a_drain_goes_on_when_its_leases_are_damaged(
    clusters: Clusters, config: Path, flow: Flow, access: Mapping[str, str], topic_name: str
) -> None:
    fill(clusters[0], topic_name, 1, 1000)
    first = spark_submit(config, "--mode", "drain")
    bucket = f"{access['fs.s3a.endpoint']}/{BUCKET}"
    newest = max(keys(bucket, f"{flow.slug}/leases/_delta_log/0"))
    json = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{bucket}/{newest}", b'{"add', json, method="PUT")  # noqa: S310
    urllib.request.urlopen(request, timeout=30).close()  # noqa: S310 - our own server
    send(clusters[0], topic_name, 1, 1000)
    second = spark_submit(config, "--mode", "drain")

    assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr
    assert "event=table_damaged" in second.stdout + second.stderr
    aside = {key.split("/")[1] for key in keys(bucket, f"{flow.slug}/leases.damaged-")}
    assert len(aside) == 1
    assert_copies(clusters, {topic_name: f"{flow.source}.{topic_name}"})


def keys(bucket: str, prefix: str) -> list[str]:
    """The names of the objects of a bucket that begin with *prefix*."""
    url = f"{bucket}?list-type=2&prefix={prefix}"
    with urllib.request.urlopen(url, timeout=30) as answer:  # noqa: S310 - our own server
        return re.findall("<Key>([^<]+json)</Key>", answer.read().decode())


def test_a_running_job_is_stopped_from_another_process(
    clusters: Clusters, config: Path, flow: Flow, tmp_path: Path, topic_name: str, until: Until
) -> None:
    remote = f"{flow.source}.{topic_name}"
    fill(clusters[0], topic_name, 1, 1000)

    command = [str(SCRIPT), "--config", str(config)]
    with RunningProcess("mirror", command, tmp_path / "mirror.log") as job:
        copied = job.while_running(
            lambda: log_ends(clusters[1].bootstrap, [remote]).get(remote, 0) == 1000
        )
        until(copied, SECONDS)
        stopped = replication("stop", config)
        code = job.wait(SECONDS)

    assert (stopped.returncode, stopped.stdout) == (0, f"{flow} stopped\n"), stopped.stderr
    assert code == 0
    assert_copies(clusters, {topic_name: remote})
