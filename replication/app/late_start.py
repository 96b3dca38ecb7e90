"""When a job's Spark starts: before its flows, beside their first steps, or when it is needed.

A drain may find nothing to copy, so that it needs none.
"""

from typing import Final

import pyspark

from replication.app.background import is_drain
from replication.app.claims import Launch
from replication.config.transforms import chain_text, tried_transforms
from replication.config.tree import FlowConfig
from replication.errors import StateError
from replication.spark.acknowledged import is_on_class_path
from replication.spark.session import SparkStart, driver_jvm
from replication.state.readers import is_quick, open_reader
from replication.state.table_reader import StateReader

_KEYS: Final = ("remote_topic",)


def spark_start(launch: Launch, engine: str) -> SparkStart:
    """Returns when Spark starts for *launch*.

    Lease, topics and positions need none, so that a flow takes these steps while it starts. What
    only a session can refuse is refused before a flow has done anything.

    Args:
        launch: What the process is to run.
        engine: What reads and writes the state directory.
    """
    if is_drain(launch.config, launch.chosen):
        return "when needed" if _may_start_late(launch) else "before"
    if any(flow.transforms for flow in launch.chosen):  # Spark says whether they are valid
        return "before"
    needs_none = launch.chosen and engine == "delta-rs" and is_on_class_path(driver_jvm())
    return "beside" if needs_none else "before"


def _may_start_late(launch: Launch) -> bool:
    """Returns whether *launch*, a drain, may start Spark when it is first needed, if it ever is.

    A transform that this Spark has not taken yet is tried first: it may be bad input, which ends a
    start before anything else begins.
    """
    changing = [flow for flow in launch.chosen if flow.transforms]
    if not changing:
        return True
    access = launch.config.access
    if not is_quick(access):  # the tables are Spark's then, and so is the answer
        return False
    try:
        with open_reader(access) as state:
            return all(_are_tried(state, flow) for flow in changing)
    except StateError:  # the start meets it as well, and says it
        return False


def _are_tried(state: StateReader, flow: FlowConfig) -> bool:
    rows = state.newest("topics", flow.flow, _KEYS, ["at"])
    version = pyspark.__version__
    wanted = {chain_text((one,), version) for one in flow.transforms}
    return wanted <= tried_transforms(rows, version)
