"""Maps of partitions that went on by decision: no group is ever sent past an unread record."""

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replication.model import GuardPolicy, Position
from replication.offsets.guard import (
    Accepted,
    Jump,
    Refusal,
    cut,
    foreign,
    recreated,
    rule,
    unmatched,
    with_map,
)
from replication.offsets.map import NoAnswer, OffsetMap
from replication.offsets.runs import OffsetRun

END = 60


def random_copy(chance: random.Random) -> tuple[list[int], list[OffsetRun]]:
    """The source offsets of a partition's records, and a map of their copies."""
    records = sorted(chance.sample(range(END), chance.choice([END, END // 2, 5])))
    borders = sorted({0, END, *chance.sample(range(END), 6)})
    runs, copied = [], 0
    for start, until in pairwise(borders):
        count = sum(start <= offset < until for offset in records)
        runs.append(OffsetRun(start, until, copied, count))
        copied += count
    return records, runs


def assert_never_past(target: list[int], offsets: OffsetMap) -> None:
    """Every record that a group has not read is at or after the position that it gets."""
    for committed in range(END + 1):
        answer = offsets.translate(committed)
        if not isinstance(answer, NoAnswer):
            unread = {record for record in target if record >= committed}
            assert unread <= set(target[answer.offset :]), committed


@pytest.mark.parametrize("policy", ["skip", "restart"])
@pytest.mark.parametrize("seed", range(150))
def test_a_target_that_was_cut_and_refilled_never_sends_a_group_past_a_record(
    seed: int, policy: GuardPolicy
) -> None:
    chance = random.Random(seed)  # noqa: S311 - not for secrets
    records, runs = random_copy(chance)
    log_end = chance.randrange(len(records) + 1)
    last = Refusal("target-truncated", "", 0, END, log_end, replicated=None, skip=END, restart=0)

    jump = rule(with_map(last, runs, log_end), policy, None, "id")

    assert isinstance(jump, Jump)
    at, kept = jump.position.upstream, jump.refusal.remaining_runs
    assert kept is not None
    left = records[:log_end]
    again = [record for record in records if record >= at]
    map_after = OffsetMap([*kept, *jump.new_runs(), OffsetRun(at, END, log_end, len(again))])
    assert_never_past([*left, *again], map_after)
    if policy == "restart":
        assert set(left) | set(again) == set(records)
    else:
        assert set(left).isdisjoint(again)


@pytest.mark.parametrize("seed", range(50))
def test_cutting_a_map_keeps_what_it_states_of_the_rest(seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - not for secrets
    records, runs = random_copy(chance)
    log_end = chance.randrange(len(records) + 1)

    kept = cut(runs, log_end)

    assert sum(run.count for run in kept) == log_end
    assert_never_past(records[:log_end], OffsetMap(kept))


def test_another_producers_records_stay_outside_the_map() -> None:
    matched = [OffsetRun(0, 10, 0, 10)]

    jump = rule(foreign("", (0, 40), 13, matched, 10), "restart", None, "id")

    assert isinstance(jump, Jump)
    assert (jump.lost, jump.repeated) == (None, (0, 10))
    target = [*range(10), -1, -1, -1, *range(40)]
    assert_never_past(target, OffsetMap([*jump.new_runs(), OffsetRun(0, 40, 13, 40)]))


NOTHING = "of what the source has, nothing is left out or repeated"


@pytest.mark.parametrize(
    ("refusal", "effect"),
    [
        pytest.param(
            recreated("", Position(100, 60), (3, 9), 60),
            f"{NOTHING}; what the deleted topic had and was not copied cannot be counted",
            id="a new topic",
        ),
        pytest.param(
            Refusal("source-truncated", "", 0, 50, 60, replicated=50, skip=50, restart=50),
            f"{NOTHING}; what was cut off the source and was not copied cannot be counted",
            id="a cut source",
        ),
        pytest.param(
            unmatched("", Position(0, 60), (7, 7), None),
            f"{NOTHING}; what the source had before offset 7 and was not copied cannot be counted",
            id="retention has emptied the source",
        ),
        pytest.param(foreign("", (0, 40), 60, [], 40), NOTHING, id="another producer"),
    ],
)
def test_the_effect_of_a_decision_claims_nothing_of_what_nobody_has_any_more(
    refusal: Refusal, effect: str
) -> None:
    jump = rule(refusal, "skip", None, "id")

    assert isinstance(jump, Jump)
    assert jump.effect == effect


@given(st.data())
def test_a_claim_about_a_new_topic_covers_what_was_copied_before_anybody_noticed(
    data: st.DataObject,
) -> None:
    """The consumer has gone on at its offset, so the target ends with records of either topic."""
    known = Position(data.draw(st.integers(0, 20)), data.draw(st.integers(0, 20)))
    earliest = data.draw(st.integers(0, 30))
    end = data.draw(st.integers(earliest, 40))
    first = max(earliest, known.upstream)
    copied = set(range(first, first + data.draw(st.integers(0, max(0, end - first)))))
    log_end = known.downstream + data.draw(st.integers(0, 5)) + len(copied)
    start = data.draw(st.integers(earliest, end))

    refusal = recreated("", known, (earliest, end), log_end)
    jump = rule(refusal, "fail", Accepted(start, "id"), "id")

    assert isinstance(jump, Jump)
    assert {*range(earliest, start)} - copied <= {*range(*(jump.lost or (0, 0)))}
    assert {*range(start, end)} & copied <= {*range(*(jump.repeated or (0, 0)))}
    skip = rule(refusal, "skip", None, "id")
    assert isinstance(skip, Jump)
    assert skip.repeated is None
    assert copied.isdisjoint(range(skip.position.upstream, end))
