"""An instruction to change a flow: who gives it and why, and what is answered.

All resources that change something begin and end here, so that each asks for the role, says what it
would do if that is all that is wanted, and logs who has done it.
"""

from typing import Any

from fastapi import Request
from pydantic import BaseModel, ConfigDict, Field

from replication.config.tree import FlowConfig
from replication.figures.document import flow_document
from replication.log import Log
from replication.serve.problems import ProblemError
from replication.serve.security import caller_of

log = Log(__name__)


class Stop(BaseModel):
    """A request to stop a flow; what each other one has, too."""

    model_config = ConfigDict(extra="forbid")
    reason: str = Field("", max_length=1000)
    dry_run: bool = Field(True, description="Only say what would be done.")


class Instruction:
    """What somebody who may change things wants of a flow.

    Args:
        request: Of whoever asks.
        flow: The flow.
        wanted: Why, and whether it is to be done.

    Attributes:
        by: Who asks.

    Raises:
        ProblemError: They may not change anything.
    """

    def __init__(self, request: Request, flow: FlowConfig, wanted: Stop) -> None:
        self.by = writer(request)
        self._request = request
        self._flow = flow
        self._wanted = wanted

    @property
    def reason(self) -> str:
        """Why, as the flow's process is told."""
        return f"{self.by} by REST: {self._wanted.reason}".rstrip(": ")

    def is_due(self, action: str) -> bool:
        """Returns whether *action* is to be done and not only described; logs it then."""
        if self._wanted.dry_run:
            return False
        client = self._request.client.host if self._request.client else "?"
        log.bind(self._flow.flow).warning(
            "requested", action=action, by=self.by, client=client, text=self._wanted.reason
        )
        return True

    def answer(self, what: dict[str, Any], see: str = "") -> dict[str, Any]:
        """Returns the answer: *what* is done, and where what comes of it is to be seen."""
        return {
            "flow": flow_document(self._flow.flow),
            "dry_run": self._wanted.dry_run,
            "what": what,
            "see": see or f"/api/v1/events?flow={self._flow.flow}",
        }


def writer(request: Request) -> str:
    """Returns the name of whoever sends *request*.

    Raises:
        ProblemError: They may not change anything.
    """
    caller = caller_of(request)
    if caller is None or not caller.may_write:
        raise ProblemError(
            403,
            "read-only",
            "this needs a token of the role write",
            "replication token NAME --role write, and rest.tokens.file",
        )
    return caller.name
