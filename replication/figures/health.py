"""What holds of a flow that an operator should know, and how healthy that makes it. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

Code = Literal[
    "set-aside",
    "stalled",
    "lag-above-slo",
    "map-old",
    "group-blocked",
    "group-without-position",
    "heartbeats-missing",
    "cluster-unreachable",
    "records-not-reported",
    "offsets-given-up",
    "restarting",
    "state-not-written",
    "clock-skew",
    "retention-near",
    "target-keeps-less",
    "dead-letters",
]
"""The kinds of conditions."""

Severity = Literal["degraded", "bad"]
Health = Literal["ok", "degraded", "bad"]

SEVERITIES: Final[Mapping[Code, Severity]] = MappingProxyType(
    {
        "set-aside": "bad",
        "stalled": "bad",
        "lag-above-slo": "degraded",
        "map-old": "degraded",
        "group-blocked": "degraded",
        "group-without-position": "degraded",
        "heartbeats-missing": "degraded",
        "cluster-unreachable": "bad",
        "records-not-reported": "degraded",
        "offsets-given-up": "bad",
        "restarting": "degraded",
        "state-not-written": "bad",
        "clock-skew": "degraded",
        "retention-near": "bad",
        "target-keeps-less": "degraded",
        "dead-letters": "degraded",
    }
)
"""How much a condition weighs. Bad is what loses or withholds records, or is about to."""


@dataclass(frozen=True, slots=True)
class Condition:
    """Something that holds now.

    Args:
        code: Its kind.
        severity: How much it weighs.
        since: When it began, in epoch seconds.
        text: What holds, in a sentence.
        next_step: A command to copy, or what else to do.
        topic: The upstream topic that it is about; None if it is about the flow or a group.
    """

    code: Code
    severity: Severity
    since: float
    text: str
    next_step: str = ""
    topic: str | None = None


def health_of(conditions: Iterable[Condition]) -> Health:
    """Returns the health that *conditions* leave: as bad as the worst of them."""
    severities = {condition.severity for condition in conditions}
    if "bad" in severities:
        return "bad"
    return "degraded" if severities else "ok"
