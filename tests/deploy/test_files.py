"""The files for platforms that are not here, checked by types and programs of these platforms."""

import ast
import os
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from replication.cli.jobs import wheel_task
from replication.deploy.artifacts import build
from replication.deploy.submit import NO_HALF_DRIVER
from replication.errors import SetupError
from replication.spark.acknowledged import PLUGIN, PLUGINS
from replication.spark.session import REQUIRED, STATIC
from tests.support.local import PYTHON, REPOSITORY, SCRIPT, jars

DEPLOY = REPOSITORY / "conf" / "deploy"
FINAL = {2, 5}  # a configuration error, a refusal


@pytest.fixture(scope="module")
def bundle() -> dict[str, Any]:
    return dict(yaml.safe_load((DEPLOY / "databricks/databricks.yml").read_text()))


@pytest.mark.parametrize("job", ["mirror_continuous", "mirror_drain"])
def test_a_job_of_the_bundle_fits_databricks_own_types(bundle: dict[str, Any], job: str) -> None:
    types = pytest.importorskip("databricks.bundles.jobs")
    document = bundle["resources"]["jobs"][job]

    assert types.Job.from_dict(document).name == document["name"]
    with pytest.raises(ValueError, match="max_concurent_runs"):
        types.Job.from_dict({**document, "max_concurent_runs": 1})


@pytest.mark.parametrize("job", ["mirror_continuous", "mirror_drain"])
def test_a_job_of_the_bundle_calls_our_entry_point_with_static_settings(
    bundle: dict[str, Any], job: str
) -> None:
    (task,) = bundle["resources"]["jobs"][job]["tasks"]
    (cluster,) = bundle["resources"]["jobs"][job]["job_clusters"]
    conf = cluster["new_cluster"]["spark_conf"]

    entry = f"{task['python_wheel_task']['entry_point']} = {wheel_task.__module__}:wheel_task"
    assert entry in (REPOSITORY / "setup.cfg").read_text()
    assert task["python_wheel_task"]["parameters"][:2] == ["--job", "mirror"]
    asked = {static.name: static.value for static in STATIC} | {PLUGINS: PLUGIN}
    given = {name: conf[name] for name in asked if name != "spark.sql.extensions"}
    assert given == {name: value for name, value in asked.items() if name in given}
    assert conf["spark.scheduler.mode"] == REQUIRED["spark.scheduler.mode"]


@pytest.mark.parametrize(
    ("name", "program", "final"),
    [
        ("replication", SCRIPT, "2 5"),
        ("replication-serve", Path(PYTHON).parent / "replication", "2"),
    ],
)
def test_a_unit_is_valid_and_does_not_retry_what_a_retry_cannot_mend(
    tmp_path: Path, name: str, program: Path, final: str
) -> None:
    unit = (DEPLOY / f"single-host/{name}@.service").read_text()

    assert f"\nRestartPreventExitStatus={final}\n" in unit
    if not shutil.which("systemd-analyze"):
        pytest.skip("needs systemd-analyze")
    there = f"/opt/replication/{program.relative_to(REPOSITORY)}"
    assert f"\nExecStart={there} " in unit
    (tmp_path / f"{name}@.service").write_text(unit.replace(there, str(program)))
    answer = subprocess.run(
        [str(shutil.which("systemd-analyze")), "verify", tmp_path / f"{name}@orders.service"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert f"{name}@orders.service" not in answer.stderr, answer.stderr


def test_the_compose_file_runs_the_image_and_lets_it_stop_cleanly() -> None:
    compose = yaml.safe_load((DEPLOY / "single-host/compose.yaml").read_text())

    service, serve = compose["services"]["mirror"], compose["services"]["serve"]
    assert compose["services"].keys() == {"mirror", "serve"}
    assert service["command"][0] == "mirror"
    assert service["stop_grace_period"] == "90s"
    for each in (service, serve):
        mounted = {volume.split(":")[1] for volume in each["volumes"]}
        assert mounted == {"/etc/replication/mirror.yaml", "/var/lib/replication"}
        assert each["image"] == "replication"
        assert (each["read_only"], each["cap_drop"]) == (True, ["ALL"])
    assert serve["command"] == ["replication", "serve", "/etc/replication/mirror.yaml"]
    assert serve["network_mode"] == "host"  # 127.0.0.1 of a container of its own is nobody's
    assert "ports" not in serve
    assert "/tmp:exec" in service["tmpfs"]  # noqa: S108 - zstd and snappy load a library from there
    recipe = (DEPLOY / "kubernetes/Dockerfile").read_text()
    assert "install -d -o spark /var/lib/replication" in recipe  # else the volume is root's


def test_the_dag_does_not_retry_what_a_retry_cannot_mend() -> None:
    tree = ast.parse((DEPLOY / "airflow/mirror.py").read_text())

    constants = {
        node.targets[0].id: ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    assert set(constants["NOT_AGAIN"]) == FINAL


def test_the_image_recipe_needs_no_buildkit() -> None:
    """Docker without buildx has its old builder, which knows neither COPY --chmod nor heredocs."""
    recipe = (DEPLOY / "kubernetes/Dockerfile").read_text()

    assert re.findall(r"^(?:COPY|ADD|RUN) +--(?!chown|from)\S+|<<", recipe, re.MULTILINE) == []


def test_the_image_keeps_the_name_of_its_base() -> None:
    recipe = (DEPLOY / "kubernetes/Dockerfile").read_text()

    assert re.search(
        r'^FROM \$\{BASE\}\nARG BASE\nLABEL org\.opencontainers\.image\.base\.name="\$\{BASE\}"$',
        recipe,
        re.MULTILINE,
    ), "an ARG before FROM has no value behind it until it is named again"


def test_a_container_without_arguments_says_what_it_takes() -> None:
    command = [DEPLOY / "kubernetes/entrypoint.sh"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)

    assert ended.returncode == 2
    (line,) = ended.stderr.splitlines()
    assert "mirror --config FILE" in line


def test_a_user_without_a_name_gets_one_in_the_container(tmp_path: Path) -> None:
    """As on OpenShift: a number of its own choice, in the group 0, which may write the file."""
    names, entrypoint = tmp_path / "passwd", tmp_path / "entrypoint.sh"
    shutil.copy("/etc/passwd", names)
    names.chmod(0o664)
    shutil.copy(DEPLOY / "kubernetes/entrypoint.sh", entrypoint)
    program = (
        'mount --bind "$0" /etc/passwd && exec setpriv --reuid 123456 --regid 0 --clear-groups '
        """bash -s -- sh -c 'id -un; echo "$HOME"; pwd -P' < "$1\""""
    )
    mount = [shutil.which("unshare") or "", "--mount"]
    if (
        not mount[0]
        or subprocess.run([*mount, "true"], capture_output=True, check=False).returncode
    ):
        pytest.skip("this user may not mount a file over /etc/passwd")

    done = subprocess.run(
        [*mount, "bash", "-c", program, names, entrypoint], cwd="/",
        env={"PATH": os.environ["PATH"]}, capture_output=True, text=True, check=True,
    )  # fmt: skip

    assert done.stdout.splitlines() == ["replication", "/tmp", "/"]  # noqa: S108 - as it is
    assert "\nreplication:x:123456:0:replication:/tmp:/bin/bash\n" in names.read_text()


@pytest.mark.parametrize(
    ("environ", "settings", "collectors"),
    [
        ({"MASTER": "local[16]"}, "", ["Parallel"]),
        ({}, "", []),  # tasks run in other pods
        ({"MASTER": "local[16]", "JAVA_TOOL_OPTIONS": "-XX:+UseSerialGC"}, "", []),
        ({"MASTER": "local[16]"}, "spark.driver.defaultJavaOptions -XX:+UseZGC\n", []),
    ],
)
def test_the_driver_of_a_pod_has_our_java_options(
    tmp_path: Path, environ: dict[str, str], settings: str, collectors: list[str]
) -> None:
    submit = tmp_path / "bin/spark-submit"
    submit.parent.mkdir()
    submit.write_text("#!/bin/sh\nprintf '%s\\n' \"$@\"\n")
    submit.chmod(0o755)
    (tmp_path / "spark.properties").write_text(settings)
    home = {"SPARK_HOME": str(tmp_path), "SPARK_SETTINGS": str(tmp_path / "spark.properties")}
    command = [str(DEPLOY / "kubernetes/entrypoint.sh"), "mirror", "--config", "mirror.yaml"]

    ended = subprocess.run(
        command, env={"PATH": os.environ["PATH"], **home, **environ}, capture_output=True,
        text=True, check=True,
    )  # fmt: skip

    words = ended.stdout.splitlines()
    options = words[words.index("--driver-java-options") + 1]
    assert re.findall(r"-XX:\+Use(\w+)GC", options) == collectors
    assert NO_HALF_DRIVER in options
    assert words[-3:] == ["/opt/replication/jobs/mirror.py", "--config", "mirror.yaml"]


def test_a_build_has_what_the_image_recipe_copies(tmp_path: Path) -> None:
    jars("spark", override="SPARK_JARS")  # or skips

    build(REPOSITORY, tmp_path / "build")

    files = Counter(
        path.suffix if path.suffix in {".whl", ".gz"} else path.name
        for path in (tmp_path / "build").iterdir()
    )
    names = "Dockerfile entrypoint.sh jars jobs lock log4j2.properties .whl .gz"
    assert files == Counter(names.split())
    assert (tmp_path / "build/jars/replication.jar").exists()
    recipe = (tmp_path / "build/Dockerfile").read_text()
    copied = [line.split()[1:-1] for line in recipe.splitlines() if line.startswith("COPY")]
    named = {word for words in copied for word in words if not word.startswith("--")}
    found = {name for name in named if list((tmp_path / "build").glob(name.rstrip("/")))}
    assert named == found
    (run,) = re.findall(r"^RUN (chmod -R a\+rX .*)\\\n", recipe, re.MULTILINE)
    assert set(run.split()) >= {"/opt/jars", "/opt/replication", "/opt/entrypoint.sh"}  # umask 077

    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/file").touch()
    with pytest.raises(SetupError, match="not empty and holds no earlier build"):
        build(REPOSITORY, tmp_path / "mine")
