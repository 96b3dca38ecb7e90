"""Limits of flows that run in the test's process."""

from replication.config.limits import Limit, merge
from replication.control.overrides import new_change
from replication.state.change_files import ChangeFiles
from replication.state.files import LocalFiles
from tests.support.flows import RunningFlow


def limit(flow: RunningFlow, wanted: Limit) -> None:
    """Changes a limit as an operator does; returns when the flow's process knows it."""
    name, in_force = flow.config.flow, merge([*flow.config.limits, wanted])
    changes = ChangeFiles(LocalFiles(), flow.tables.root, name)
    changes.write(new_change(name, "limit", wanted.items, scope=wanted.topics or ""))
    flow.until(lambda: flow.context.metrics.limits == in_force)
