"""Drains the flows every 15 minutes. For Airflow 3; see README.md beside this file.

A drain ends with 0 when everything is copied. Exit codes 2 (configuration) and 5 (a refusal) come
again at each try: they fail the task at once. Other failures are tried again, after the lease of
the process that failed has ended.
"""

import json
import os
import re
import subprocess
from datetime import datetime, timedelta, timezone
from typing import Any

from airflow.exceptions import AirflowException, AirflowFailException
from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG, Asset, Context, task

CONFIG = "{{ var.value.replication_config }}"  # /etc/replication/orders.yaml
FLOW = "{{ var.value.replication_flow }}"  # us-west->us-east
CHECKOUT = "{{ var.value.replication_checkout }}"  # where spark-submit.sh is
NOT_AGAIN = (2, 5)


class Drain(BashOperator):
    """Runs spark-submit.sh; its last line of log says why it failed."""

    def execute(self, context: Context) -> object:
        """Run the drain, and fail for good where another try cannot help."""
        try:
            return super().execute(context)
        except AirflowException as error:
            code = re.search(r"exit code (\d+)", str(error))
            if code and int(code[1]) in NOT_AGAIN:
                raise AirflowFailException(str(error)) from error
            raise


with DAG(
    "mirror",
    schedule="*/15 * * * *",
    start_date=datetime(2026, 1, 1, tzinfo=timezone.utc),
    catchup=False,
    max_active_runs=1,  # one process for a flow; a second one would end with exit code 4
    default_args={"retries": 2, "retry_delay": timedelta(seconds=60)},
) as dag:
    drain = Drain(
        task_id="drain",
        bash_command=f"{CHECKOUT}/spark-submit.sh --config {CONFIG} --mode drain",
        append_env=True,  # MASTER, DEPLOY_MODE and passwords from the worker's environment
        execution_timeout=timedelta(hours=2),
        outlets=[Asset("replication://orders")],  # other DAGs may be scheduled on it
    )

    @task
    def groups(checkout: str, config: str, flow: str) -> list[dict[str, Any]]:
        """Position and lag of each group after the drain, as XCom."""
        home = os.environ.get("REPLICATION_HOME", f"{checkout}/.local")
        command = [f"{home}/venv/bin/python", "-m", "replication", "groups", config]
        answer = subprocess.run(  # noqa: S603 - the project's own command
            [*command, "--flow", flow, "--json"],
            cwd=checkout,
            capture_output=True,
            text=True,
            check=True,
        )
        return list(json.loads(answer.stdout)["groups"])

    drain >> groups(CHECKOUT, CONFIG, FLOW)
