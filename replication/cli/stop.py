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
        echo(f"{flow} {_answer(stopped.get(flow))}")
    if failed := [code for code in stopped.values() if code]:
        click.get_current_context().exit(failed[0])


def _answer(exit_code: int | None) -> str:
    if exit_code is None:
        return "is not running"
    return f"failed with exit code {exit_code}; its log says why" if exit_code else "stopped"
