"""Changes of a flow while it runs: their history, a new one, and taking one back.

A change needs no process and no cluster, as with the commands: where a cluster does not answer, the
answer says what is not known.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final, get_args
from urllib.parse import quote

from fastapi import APIRouter, Path, Request
from pydantic import Field

from replication.config.changes import LONGEST_REASON, MOST_ITEMS, Change, Order
from replication.config.limits import LimitError, parse_bytes, parse_records
from replication.config.tree import FlowConfig
from replication.control.changed import changed, in_force
from replication.control.steer import (
    Steered,
    check,
    is_in,
    make,
    new_change,
    open_steered,
    undo_of,
)
from replication.errors import NoAnswerError, ReplicationError
from replication.figures.document import text_of
from replication.serve import schemas
from replication.serve.asked import Asked, ChangeWish, OneFlow
from replication.serve.bounds import ASKS_CLUSTERS, READS_TABLES
from replication.serve.instructions import Instruction, Stop
from replication.serve.paging import Value, Wish, page_of
from replication.serve.problems import ProblemError
from replication.serve.questions import Questions
from replication.state.change_files import Applied
from replication.state.readers import is_quick

router = APIRouter(prefix="/api/v1", responses=schemas.PROBLEMS)

ORDERS: Final[tuple[Order, ...]] = get_args(Order)

SHOWN: Final = 20
"""Changes that the page of a flow shows."""

_LONGEST_NAME: Final = 500
"""Of what a change is found and sorted by."""

Number = Annotated[
    str,
    Path(
        pattern="^[0-9]{1,10}(-[0-9a-f]{1,32})?$",
        description="Of the change; with a - and the begin of its id where two have one number.",
    ),
]


class ChangeOrder(Stop):
    """A request to change a flow while it runs, as the commands do."""

    what: Order
    items: list[str] = Field(
        default_factory=list,
        max_length=MOST_ITEMS,
        description="Names or regexes; of a pause also clicks:3, and none is the whole flow; of a "
        "hold the name of an operation; of a limit bytes=20MB and records=5000, 0 for none.",
    )
    scope: str = Field("", max_length=LONGEST_REASON, description="The topics of a limit.")


@dataclass(frozen=True, slots=True)
class KnownChanges:
    """What was changed of a flow, as it is now.

    Args:
        steered: The flow.
        applied: What a process has said last that it follows; None if none has.
    """

    steered: Steered
    applied: Applied | None

    def document(self, change: Change) -> dict[str, Any]:
        """Returns what is answered of one change."""
        found = changed(change)
        del found["flow"]
        return {
            **found,
            "text": change.text,
            "state": self.steered.steering.state_of(change, self.steered.configured),
            "followed": self.applied is not None and is_in(change, self.applied),
        }


@router.get(
    "/flows/{source}/{target}/changes",
    response_model=schemas.ChangePageDocument,
    dependencies=[READS_TABLES],
)
def changes(flow: OneFlow, asked: Asked, wish: ChangeWish) -> dict[str, Any]:
    """Returns who has changed a flow while it ran, when and why; the newest first."""
    return _history(asked, flow, wish)


@router.post(
    "/flows/{source}/{target}/changes",
    status_code=202,
    response_model=schemas.RequestedDocument,
    dependencies=[ASKS_CLUSTERS],
)
def change(request: Request, flow: OneFlow, asked: Asked, wanted: ChangeOrder) -> dict[str, Any]:
    """Changes lists, pauses or limits of a running flow; needs a token of the role write."""

    def new(steered: Steered) -> Change:
        items = _items(wanted)
        return new_change(
            steered.flow, wanted.what, items, scope=wanted.scope, reason=wanted.reason
        )

    return _carry_out(request, flow, asked, wanted, new)


@router.post(
    "/flows/{source}/{target}/changes/{number}/undo",
    status_code=202,
    response_model=schemas.RequestedDocument,
    dependencies=[ASKS_CLUSTERS],
)
def undo(
    request: Request, flow: OneFlow, asked: Asked, number: Number, wanted: Stop
) -> dict[str, Any]:
    """Takes a change back, as if it had not been made; needs a token of the role write."""
    return _carry_out(
        request, flow, asked, wanted, lambda steered: undo_of(steered, number, wanted.reason)
    )


def newest(asked: Questions, flow: FlowConfig) -> dict[str, Any]:
    """Returns the newest changes for the page of a flow, which is shown whatever becomes of them.

    What needs Java is left to whoever asks for the history itself.
    """
    nothing: dict[str, Any] = {"items": [], "total": 0}
    if not is_quick(asked.config.access):
        text = "what was changed is out of reach without Java; the command history shows it"
        return {**nothing, "problems": [text]}
    try:
        return _history(asked, flow, Wish(limit=SHOWN, sort="-number"))
    except ReplicationError as error:
        return {**nothing, "problems": [str(error)]}


def _history(asked: Questions, flow: FlowConfig, wish: Wish) -> dict[str, Any]:
    values: dict[str, Callable[[Change], Value]] = {
        "number": lambda change: float(change.number),
        "at": lambda change: change.at,
    }
    with open_steered(asked.config, flow) as steered:
        found = KnownChanges(steered, steered.changes.applied())
        page = page_of(steered.steering.changes, wish, _name_of, values)
        unread = steered.changes.unread
        return {
            "items": [found.document(change) for change in page.items],
            "next": page.next,
            "total": page.total,
            "as_of": text_of(time.time()),
            "stale": False,
            "problems": [
                *_doubts(asked),
                *(f"{path} counts as absent: {each.text}" for path, each in unread.items()),
            ],
        }


def _name_of(change: Change) -> str:
    return f"{change.name} {change.text} {change.by}"[:_LONGEST_NAME]


def _doubts(asked: Questions) -> list[str]:
    """Returns why the state directory may not be that of the flow's process."""
    try:
        asked.begun()
    except NoAnswerError as error:
        return [str(error)]
    return []


def _items(wanted: ChangeOrder) -> list[str]:
    """Returns the items of a change; those of a limit with plain numbers.

    Raises:
        ProblemError: A rate of a limit is none.
    """
    if wanted.what != "limit":
        return wanted.items
    try:
        return [_rate(item) for item in wanted.items]
    except LimitError as error:
        raise ProblemError(422, "configuration", str(error)) from None


def _rate(item: str) -> str:
    """Returns an item of a limit with a plain number; one that is something else as it is."""
    name, _, rate = item.partition("=")
    if rate == "0" or name not in {"bytes", "records"}:
        return item
    return f"{name}={parse_bytes(rate) if name == 'bytes' else parse_records(rate)}"


def _carry_out(
    request: Request,
    flow: FlowConfig,
    asked: Questions,
    wanted: Stop,
    new: Callable[[Steered], Change],
) -> dict[str, Any]:
    """Says what a change would do, and makes it unless that is all that is wanted."""
    given = Instruction(request, flow, wanted)
    # Imported here because it imports Spark, which a server does not start
    from replication.control.preview import preview  # noqa: PLC0415

    with open_steered(asked.config, flow) as steered:
        change = replace(new(steered), by=given.by)
        check(steered, change)
        effect = preview(in_force(asked.config), steered, change, may_start_spark=False)
        doubts = _doubts(asked)  # before the change, which makes a folder
        made: Change | None = None
        others: list[Change] = []
        if given.is_due(change.what):
            made, others = make(steered, change)
    what = {
        **_shown(made or change, others),
        **effect.document(),
        "warnings": [*effect.warnings, *doubts],
    }
    source, target = _segment(flow.flow.source), _segment(flow.flow.target)
    return given.answer(what, f"/api/v1/flows/{source}/{target}/changes")


def _shown(change: Change, others: list[Change]) -> dict[str, Any]:
    """Returns a change as it is answered, and what *others* have changed at the same time."""
    made = {"number": change.number, "id": change.id} if change.id else {}
    return {
        "action": change.what,
        "change": change.text,
        "items": list(change.items),
        "scope": change.scope,
        **made,
        "at_the_same_time": [f"{each.number}: {each.text}, by {each.origin}" for each in others],
    }


def _segment(alias: str) -> str:
    return quote(alias, safe="")
