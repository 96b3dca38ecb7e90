"""Each position of a group has one answer to why the target has the offset that it has."""

import pytest

from replication.groups.positions import GroupPosition, SyncRules, plan_commits, sync_answer
from replication.model import Committed, TopicPartition
from replication.offsets.map import Exact, NoAnswer, Translation

SOURCE, REMOTE = TopicPartition("t", 0), TopicPartition("A.t", 0)
SYNCED = SyncRules(is_enabled=True, is_selected=True, is_shared=False)

REFUSED = SyncRules(True, True, False, "its metadata is too long")


def position(answer: Translation) -> GroupPosition:
    return GroupPosition("g", SOURCE, REMOTE, Committed(40), answer)


@pytest.mark.parametrize(
    ("answer", "on_target", "state", "rules", "code"),
    [
        (NoAnswer("nothing replicated", None), 40, "EMPTY", SYNCED, "no-offset"),
        (Exact(40), 40, "STABLE", SyncRules(False, False, True), "in-step"),
        (Exact(40), 7, "EMPTY", SyncRules(False, True, False), "off"),
        (Exact(40), 7, "EMPTY", SyncRules(True, False, False), "not-selected"),
        (Exact(40), 7, "EMPTY", SyncRules(True, True, True), "shared-topic"),
        (Exact(40), 7, "STABLE", SYNCED, "active"),
        (Exact(40), 7, "STABLE", REFUSED, "active"),
        (Exact(40), 7, "EMPTY", REFUSED, "refused"),
        (Exact(40), 40, "EMPTY", REFUSED, "in-step"),
        (Exact(40), 41, "EMPTY", SYNCED, "ahead"),
        (Exact(40), 7, "EMPTY", SYNCED, "due"),
        (Exact(40), None, "", SYNCED, "due"),
    ],
)
def test_an_answer(
    answer: Translation, on_target: int | None, state: str, rules: SyncRules, code: str
) -> None:
    assert sync_answer(position(answer), on_target, state, rules).code == code


@pytest.mark.parametrize("on_target", [None, 0, 39, 40, 41])
def test_what_is_due_is_what_group_sync_commits(on_target: int | None) -> None:
    one = position(Exact(40))
    current = {} if on_target is None else {REMOTE: Committed(on_target)}

    commits = plan_commits([one], current, (), "keep")

    assert bool(commits) == (sync_answer(one, on_target, "EMPTY", SYNCED).code == "due")
