"""Flows that must not run: for clusters that are not those of before, and for transforms."""

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from replication.errors import ConfigError, IdentityError, ReplicationError, StateError
from replication.flows.context import FlowContext
from replication.flows.identity import check_identity
from replication.flows.refused_transforms import refused_transforms
from replication.model import Flow


def refuse(context: FlowContext, error: ReplicationError, _stop: threading.Event) -> None:
    """Ends the flow with *error*; its watches end as well.

    Raises:
        ReplicationError: Always *error*.
    """
    with context.outages:
        raise error


def refusals(file: str, contexts: Sequence[FlowContext]) -> dict[Flow, ReplicationError]:
    """Returns the flows that must not run, and why; all are looked at side by side."""
    if not contexts:
        return {}
    with ThreadPoolExecutor(len(contexts), "identity") as pool:
        found = zip(contexts, pool.map(partial(_refusal, file), contexts), strict=True)
        return {context.config.flow: error for context, error in found if error is not None}


def _refusal(file: str, context: FlowContext) -> ReplicationError | None:
    """Returns why the flow must not run; what else may keep it from running is left to it."""
    try:
        check_identity(context)
        if problems := refused_transforms(context):
            return ConfigError(file, problems)
    except IdentityError as error:
        return error
    except StateError as error:
        context.log.info("clusters_not_checked", text=error)
    return None
