"""The DAG on a real Airflow: it drains, and it does not try a configuration error again.

Airflow is in an environment of its own, which the variable AIRFLOW names. It has hundreds of pinned
packages, and its provider for Spark brings another one that is called pyspark.
"""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.local import REPOSITORY, Clusters
from tests.support.mirror_files import write_config
from tests.support.topics import assert_equal, fill

pytestmark = [pytest.mark.cluster, pytest.mark.job, pytest.mark.timeout(1500)]

AIRFLOW = os.environ.get("AIRFLOW") or shutil.which("airflow")
INSTALL = "pip install apache-airflow apache-airflow-providers-standard"

Run = Callable[[Path], "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Runs the DAG once for a configuration file."""
    if not AIRFLOW:
        pytest.skip(f"needs Airflow in an environment of its own: {INSTALL}; AIRFLOW=.../airflow")
    environment = {
        **os.environ,
        "AIRFLOW_HOME": str(tmp_path_factory.mktemp("airflow")),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(REPOSITORY / "conf/deploy/airflow"),
        "AIRFLOW_VAR_REPLICATION_CHECKOUT": str(REPOSITORY),
        "AIRFLOW_VAR_REPLICATION_FLOW": "A->B",
    }

    def airflow(*words: str, **more: str) -> "subprocess.CompletedProcess[str]":
        command = [str(AIRFLOW), *words]
        return subprocess.run(
            command, capture_output=True, text=True, check=False, env={**environment, **more}
        )

    migrated = airflow("db", "migrate")
    assert migrated.returncode == 0, migrated.stderr[-3000:]
    return lambda config: airflow(
        *("dags", "test", "mirror"), AIRFLOW_VAR_REPLICATION_CONFIG=str(config)
    )


def test_the_dag_drains_and_passes_the_groups_on(
    clusters: Clusters, run: Run, tmp_path: Path, topic_name: str
) -> None:
    fill(clusters[0], topic_name, 2, 1000)
    config = write_config(tmp_path, clusters, topic_name, {"groups": [topic_name]})

    answer = run(config)

    log = answer.stdout + answer.stderr
    assert answer.returncode == 0, log[-5000:]
    assert "state=success" in log
    assert_equal(clusters, topic_name)


def test_a_configuration_error_is_not_tried_again(run: Run, tmp_path: Path) -> None:
    config = tmp_path / "wrong.yaml"
    config.write_text("clusters: [A]\n")

    answer = run(config)

    log = answer.stdout + answer.stderr
    assert "exit code 2" in log
    assert "state=up_for_retry" not in log
    assert "state=failed" in log or "AirflowFailException" in log
