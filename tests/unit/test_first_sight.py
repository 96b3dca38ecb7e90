"""A group is not moved to a position it passed long ago while older records are being copied."""

import pytest

from replication.groups.positions import FirstSeen, GroupPosition
from replication.model import Committed, TopicPartition
from replication.offsets.map import OffsetMap
from replication.offsets.runs import OffsetRun

UPSTREAM = TopicPartition("orders", 0)


def position(committed: int, replicated: int) -> GroupPosition:
    """The position of a group at *committed* when *replicated* records are on the target."""
    answer = OffsetMap([OffsetRun(0, replicated, 0, replicated)]).translate(committed)
    remote = TopicPartition("A.orders", 0)
    return GroupPosition("g", UPSTREAM, remote, Committed(committed), answer)


def ready(seen: FirstSeen, committed: int, replicated: int, now: float = 0) -> bool:
    return bool(seen.ready([position(committed, replicated)], {UPSTREAM: replicated}, now))


@pytest.mark.parametrize(
    ("committed", "replicated", "expected"),
    [
        pytest.param(5, 4, False, id="ahead of the copy"),
        pytest.param(5, 5, True, id="at its end"),
        pytest.param(5, 6, True, id="within it"),
        pytest.param(0, 0, True, id="a group that has read nothing of an empty copy"),
    ],
)
def test_a_group_waits_until_the_copy_has_reached_it(
    committed: int, replicated: int, expected: object
) -> None:
    assert ready(FirstSeen(10), committed, replicated) is expected


def test_a_group_waits_for_its_first_position_only() -> None:
    seen = FirstSeen(10)

    # (committed, replicated until): it reads on while the copy catches up, and is always ahead
    rounds = [(100, 0), (120, 60), (140, 100), (160, 159), (180, 170)]
    assert [ready(seen, *round_) for round_ in rounds] == [False, False, True, True, True]


def test_a_partition_that_was_never_replicated_is_not_ready() -> None:
    assert FirstSeen(10).ready([position(5, 10)], {}, 0) == []


def test_nobody_waits_for_a_copy_that_has_stopped_growing() -> None:
    seen = FirstSeen(10)

    # (replicated until, seconds): it grows at 9, so the ten seconds end at 19
    rounds = [(0, 0), (4, 9), (4, 18), (4, 19)]
    assert [ready(seen, 5, *round_) for round_ in rounds] == [False, False, False, True]
