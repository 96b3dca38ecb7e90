"""``stop``: ends a running job cleanly."""

import click

from replication.cli.options import (
    CLUSTERS,
    FILE,
    FLOW,
    JOB,
    REASON,
    chosen_flows,
    chosen_names,
    echo,
    known_errors,
)
from replication.config.file import load_config
from replication.control.stop import stop_flows, stop_when_caught_up
from replication.errors import ConfigError
from replication.model import RECORDS, Job
from replication.state.requests import NOT_CAUGHT_UP


@click.command()
@FILE
@FLOW
@CLUSTERS
@JOB
@click.option("--timeout", default=120, show_default=True, help="Seconds to wait for the end.")
@click.option(
    "--when-caught-up",
    is_flag=True,
    help="Let it first copy what the source has now, and write offset map and checkpoints.",
)
@REASON
@known_errors
def stop(
    *,
    file: str,
    name: str | None,
    clusters: str,
    timeout: int,
    job: Job,
    when_caught_up: bool,
    reason: str,
) -> None:
    """Stop the running job cleanly, and wait until it has ended.

    The request is a file in the state directory. If a flow failed, the exit code is its. With
    --when-caught-up a flow ends once all is copied that is on the source now. If that is not so
    after --timeout, nothing stops, and the exit code is 8; the text says what is missing.
    """
    config = load_config(file, clusters)
    if when_caught_up:
        if job not in RECORDS:
            raise ConfigError("--when-caught-up", [f"the job {job} copies no records"])
        flows = tuple(flow.flow for flow in chosen_flows(config, name))
        stopped = stop_when_caught_up(config, chosen_flows(config, name), job, timeout, reason)
    else:
        flows = chosen_names(config, name)
        stopped = stop_flows(config, flows, job, timeout, reason)
    for flow in flows:
        echo(f"{flow} {_outcome(stopped.get(flow), when_caught_up=when_caught_up)}")
    # that a flow does not run is no answer to whether it has caught up
    idle = NOT_CAUGHT_UP if when_caught_up else 0
    if failed := [code for flow in flows if (code := stopped.get(flow, idle))]:
        click.get_current_context().exit(failed[0])


def _outcome(code: int | None, *, when_caught_up: bool) -> str:
    if code is None:
        return "is not running"
    if when_caught_up and code == NOT_CAUGHT_UP:
        return "has ended before it had caught up"
    if code:
        return f"failed with exit code {code}; its log says why"
    return "has caught up, and stopped" if when_caught_up else "stopped"
