"""Flows that must not run, because their clusters are not those of before."""

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from replication.errors import IdentityError, ReplicationError, StateError
from replication.flows.context import FlowContext
from replication.flows.identity import check_identity
from replication.model import Flow


def refuse(context: FlowContext, error: ReplicationError, _stop: threading.Event) -> None:
    """Ends the flow with *error*; its watches end as well.

    Raises:
        ReplicationError: Always *error*.
    """
    with context.outages:
        raise error


def refusals(contexts: Sequence[FlowContext]) -> dict[Flow, IdentityError]:
    """Returns the flows that must not run, and why; all are looked at side by side."""
    if not contexts:
        return {}
    with ThreadPoolExecutor(len(contexts), "identity") as pool:
        found = zip(contexts, pool.map(_refusal, contexts), strict=True)
        return {context.config.flow: error for context, error in found if error is not None}


def _refusal(context: FlowContext) -> IdentityError | None:
    """Returns why the flow must not run; what else may keep it from running is left to it."""
    try:
        check_identity(context)
    except IdentityError as error:
        return error
    except StateError as error:
        context.log.info("clusters_not_checked", text=error)
    return None
