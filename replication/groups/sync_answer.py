"""Why a group's offset on the target is, or is not, the one of the source. Pure."""

from dataclasses import dataclass
from typing import Literal

from replication.groups.moves import IDLE_STATES
from replication.groups.positions import GroupPosition
from replication.offsets.wording import quality

SyncCode = Literal[
    "in-step",
    "due",
    "off",
    "not-selected",
    "shared-topic",
    "no-offset",
    "ahead",
    "active",
    "refused",
]


@dataclass(frozen=True, slots=True)
class SyncAnswer:
    """What group sync does with one position: a code for programs, and a text."""

    code: SyncCode
    text: str

    def document(self) -> dict[str, object]:
        """Returns what a command prints as JSON."""
        return {"code": self.code, "text": self.text}


@dataclass(frozen=True, slots=True)
class SyncRules:
    """What the flow says of a group: whether it syncs at all, and whether this group is its own.

    Args:
        is_enabled: ``sync.group.offsets.enabled``.
        is_selected: Whether ``groups`` selects the group.
        is_shared: Whether other sources write the remote topic as well.
        refusal: Why the target has rejected the group; "" if it has not.
    """

    is_enabled: bool
    is_selected: bool
    is_shared: bool
    refusal: str = ""


def sync_answer(
    position: GroupPosition, on_target: int | None, state: str, rules: SyncRules
) -> SyncAnswer:
    """Returns why the target has *on_target* for *position*, and what becomes of it.

    Args:
        position: Of the group on the source, and its translation.
        on_target: What the group has committed on the target; None if nothing.
        state: The group's state there; "" for a group that does not exist.
        rules: What the flow says of it.
    """
    wanted = position.downstream
    is_ahead = wanted is not None and on_target is not None and on_target > wanted
    answers: list[tuple[bool, SyncCode, str]] = [
        (wanted is None, "no-offset", f"no offset is safe: {quality(position.answer)}"),
        (on_target == wanted, "in-step", "the target has this offset"),
        (not rules.is_enabled, "off", "sync.group.offsets.enabled is false"),
        (not rules.is_selected, "not-selected", "groups or groups.exclude leaves it out"),
        (rules.is_shared, "shared-topic", "several sources write the topic: no group is moved"),
        (state not in IDLE_STATES, "active", "the group has members on the target"),
        (bool(rules.refusal), "refused", rules.refusal),
        (is_ahead, "ahead", "the target's offset is higher, and offsets only move forward"),
        (True, "due", "the next round commits it, if a job runs and nothing holds the flow"),
    ]
    return next(SyncAnswer(code, text) for holds, code, text in answers if holds)
