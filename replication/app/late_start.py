"""Whether Spark may wait until it is needed: a drain may find nothing to copy."""

from typing import Final

import pyspark

from replication.app.background import is_drain
from replication.app.claims import Launch
from replication.config.transforms import chain_text, tried_transforms
from replication.config.tree import FlowConfig
from replication.errors import StateError
from replication.state.readers import is_quick, open_reader
from replication.state.table_reader import StateReader

_KEYS: Final = ("remote_topic",)


def may_start_late(launch: Launch) -> bool:
    """Returns whether *launch* may start Spark when it is first needed, if it ever is.

    A transform that this Spark has not taken yet is tried first: it may be bad input, which ends a
    start before anything else begins.
    """
    if not is_drain(launch.config, launch.chosen):
        return False
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
