"""Errors as RFC 9457 has them: one document, with a code for programs and a step for people."""

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from starlette.responses import Response

MEDIA_TYPE: Final = "application/problem+json"


class ProblemError(Exception):
    """A request that has no answer; the text says why, and what to do.

    Args:
        status: The status of HTTP.
        code: A name for programs.
        text: What is wrong.
        next_step: A command, or what else to do; may be empty.
    """

    def __init__(self, status: int, code: str, text: str, next_step: str = "") -> None:
        super().__init__(text)
        self.status = status
        self.code = code
        self.next_step = next_step


def problem_response(
    status: int, code: str, text: str, headers: Mapping[str, str] | None = None, next_step: str = ""
) -> Response:
    """Returns the answer to a request that has none."""
    document = {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "code": code,
        "detail": text,
        "next_step": next_step,
    }
    return Response(json.dumps(document), status, dict(headers or {}), MEDIA_TYPE)
