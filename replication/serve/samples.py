"""What transforms make of records, for whoever may write: the content of records is confidential.

Spark evaluates it, which `serve` does not need otherwise. So the command ``transform`` answers, in
a process of its own that ends with the answer; one at a time. Nothing of an answer is kept or
logged, and no cache on the way may keep it.
"""

import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any, Final

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from replication.config.tree import FlowConfig, MirrorConfig
from replication.control.sample import MOST_RECORDS
from replication.log import Log
from replication.serve import schemas
from replication.serve.asked import Asked, OneFlow
from replication.serve.bounds import ASKS_CLUSTERS
from replication.serve.instructions import writer
from replication.serve.problems import ProblemError
from replication.serve.questions import Questions

log = Log(__name__)

router = APIRouter(prefix="/api/v1", responses=schemas.PROBLEMS)

SECONDS: Final = 180.0
"""For Spark's start and two evaluations."""

_STATUS: Final = {"no-answer": 404, "configuration": 422}
_PARTS: Final = ("filter", "key", "value", "headers", "unknown")
_DOCUMENT: Final = re.compile(rb"^\{.*\}$", re.MULTILINE | re.DOTALL)
_ONE_AT_A_TIME: Final = threading.Lock()


class SampleWish(BaseModel):
    """The newest records of a topic, and a transform to try on them; none is the file's alone."""

    model_config = ConfigDict(extra="forbid")
    topic: str = Field(min_length=1, max_length=249)
    records: int = Field(20, ge=1, le=MOST_RECORDS)
    filter: str = Field("", max_length=8000, description="SQL: which records are copied.")
    key: str = Field("", max_length=8000, description="SQL: the key of the copy.")
    value: str = Field("", max_length=8000, description="SQL: the value of the copy.")
    headers: str = Field("", max_length=8000, description="SQL: the headers of the copy.")
    add_headers: dict[str, str] = Field(default_factory=dict, description="Name: SQL.")
    remove_headers: list[str] = Field(default_factory=list)
    unknown: str = Field("", pattern="^(|fail|drop|keep)$")
    nullable: bool = False


@router.post("/flows/{source}/{target}/sample", dependencies=[ASKS_CLUSTERS])
def sample(
    request: Request, response: Response, flow: OneFlow, asked: Asked, wanted: SampleWish
) -> dict[str, Any]:
    """Shows records before and after transforms, with content; needs a token of the role write."""
    response.headers["Cache-Control"] = "no-store"
    return answer_of(request, flow, asked, wanted)


def answer_of(
    request: Request, flow: FlowConfig, asked: Questions, wanted: SampleWish
) -> dict[str, Any]:
    """Returns what the command prints as JSON, for whoever may write.

    Raises:
        ProblemError: They may not, another sample is taken, or there is no answer.
    """
    name = writer(request)
    log.bind(flow.flow).warning("requested", action="sample", by=name, topic=wanted.topic)
    if not _ONE_AT_A_TIME.acquire(blocking=False):
        raise ProblemError(503, "busy", "another sample is taken", "ask again in some seconds")
    try:
        return _answer(asked.config, flow, wanted)
    finally:
        _ONE_AT_A_TIME.release()


def _answer(config: MirrorConfig, flow: FlowConfig, wanted: SampleWish) -> dict[str, Any]:
    """Returns what the command prints as JSON.

    Raises:
        ProblemError: It gives no answer.
    """
    command = [sys.executable, "-m", "replication", "transform", config.file]
    command += [f"--flow={flow.flow}", "--json", *_options(wanted)]
    try:
        ended = subprocess.run(  # noqa: S603 - no shell, and each value belongs to its option
            command, capture_output=True, timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        text = f"no answer within {SECONDS:.0f} s"
        raise ProblemError(503, "busy", text, "ask for fewer records") from None
    if ended.stdout:
        return dict(json.loads(ended.stdout))
    error = _DOCUMENT.search(ended.stderr)
    if error is None:
        text = "the command transform gave no answer; is Spark installed on this machine?"
        raise ProblemError(503, "setup", text, "run it here by hand")
    found = json.loads(error[0])
    raise ProblemError(_STATUS.get(found["code"], 503), found["code"], found["text"])


def _options(wanted: SampleWish) -> Iterator[str]:
    yield f"--topic={wanted.topic}"
    yield f"--sample={wanted.records}"
    given = wanted.model_dump()
    yield from (f"--{part}={given[part]}" for part in _PARTS if given[part])
    yield from (f"--add-header={name}={sql}" for name, sql in wanted.add_headers.items())
    yield from (f"--remove-header={name}" for name in wanted.remove_headers)
    if wanted.nullable:
        yield "--nullable"
