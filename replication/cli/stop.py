"""``stop``: ends a running job cleanly."""

import click

from replication.cli.options import (
    CLUSTERS,
    FILE,
    FLOW,
    JOB,
    REASON,
    chosen_names,
    echo,
    known_errors,
)
from replication.config.file import load_config
from replication.control.stop import stop_flows
from replication.model import Job


@click.command()
@FILE
@FLOW
@CLUSTERS
@JOB
@click.option("--timeout", default=120, show_default=True, help="Seconds to wait for the end.")
@REASON
@known_errors
def stop(file: str, name: str | None, clusters: str, timeout: int, job: Job, reason: str) -> None:
    """Stop the running job cleanly, and wait until it has ended.

    The request is a file in the state directory. If a flow failed, the exit code is its.
    """
    config = load_config(file, clusters)
    flows = chosen_names(config, name)
    stopped = stop_flows(config, flows, job, timeout, reason)
    for flow in flows:
        code = stopped.get(flow)
        failed_by = f"failed with exit code {code}; its log says why" if code else "stopped"
        echo(f"{flow} {'is not running' if code is None else failed_by}")
    if failed := [code for code in stopped.values() if code]:
        click.get_current_context().exit(failed[0])
