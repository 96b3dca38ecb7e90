"""Translated positions: which become checkpoints, and which are committed on the target."""

import pytest

from replication.groups.positions import GroupPosition, is_rewound, plan_commits, should_emit
from replication.mm2.wire import Checkpoint
from replication.model import Committed, OnRewind, TopicPartition
from replication.offsets.map import Ahead, Bounded, Exact, NoAnswer, Translation

SOURCE, REMOTE = TopicPartition("orders", 3), TopicPartition("A.orders", 3)


def position(offset: int, answer: Translation, metadata: str = "note") -> GroupPosition:
    return GroupPosition("g", SOURCE, REMOTE, Committed(offset, metadata), answer)


def previous(upstream: int, downstream: int) -> Checkpoint:
    return Checkpoint("g", REMOTE, upstream, downstream, "")


@pytest.mark.parametrize(
    ("answer", "downstream", "reread"),
    [
        pytest.param(Exact(7), 7, 0, id="exact"),
        pytest.param(Bounded(7, 2), 7, 2, id="bounded"),
        pytest.param(Ahead(7, 30), 7, 30, id="ahead"),
        pytest.param(NoAnswer("nothing replicated", None), None, 0, id="none"),
    ],
)
def test_the_target_offset_and_its_bound_come_from_the_translation(
    answer: Translation, downstream: int | None, reread: int
) -> None:
    found = position(9, answer)

    assert (found.downstream, found.reread) == (downstream, reread)


def test_a_checkpoint_has_the_remote_partition_and_the_metadata() -> None:
    assert position(9, Exact(7)).checkpoint() == Checkpoint("g", REMOTE, 9, 7, "note")


def test_a_position_without_a_translation_has_no_checkpoint() -> None:
    with pytest.raises(ValueError, match="g has no position in A"):
        position(9, NoAnswer("nothing replicated", None)).checkpoint()


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        pytest.param(None, position(9, Exact(7)), True, id="the first checkpoint"),
        pytest.param(
            None, position(9, NoAnswer("before the first run", 10)), False, id="no translation"
        ),
        pytest.param(previous(9, 7), position(9, Exact(7)), False, id="unchanged"),
        pytest.param(
            previous(9, 7), position(9, Exact(7), "other"), False, id="other metadata only"
        ),
        pytest.param(previous(9, 7), position(12, Exact(8)), True, id="forward"),
        pytest.param(previous(9, 7), position(9, Exact(8)), True, id="replication caught up"),
        pytest.param(
            previous(9, 7), position(12, Bounded(6, 3)), False, id="backward, not rewound"
        ),
        pytest.param(previous(9, 7), position(8, Exact(6)), True, id="the group was rewound"),
    ],
)
def test_which_positions_are_emitted_under_mirrormakers_rule(
    before: Checkpoint | None, now: GroupPosition, *, expected: bool
) -> None:
    assert should_emit(now, before) is expected


def test_a_group_is_rewound_if_its_offset_is_before_its_last_checkpoint() -> None:
    assert is_rewound(position(8, Exact(6)), previous(9, 7))
    assert not is_rewound(position(9, Exact(6)), previous(9, 7))
    assert not is_rewound(position(9, Exact(6)), None)


@pytest.mark.parametrize(
    ("current", "rewound", "on_rewind", "expected"),
    [
        pytest.param({}, False, "keep", 7, id="a new group"),
        pytest.param({REMOTE: Committed(3)}, False, "keep", 7, id="forward"),
        pytest.param({REMOTE: Committed(7)}, False, "keep", None, id="already there"),
        pytest.param({REMOTE: Committed(9)}, False, "keep", None, id="backward, not rewound"),
        pytest.param({REMOTE: Committed(9)}, True, "keep", None, id="rewound, keep"),
        pytest.param({REMOTE: Committed(9)}, True, "follow", 7, id="rewound, follow"),
        pytest.param({REMOTE: Committed(9)}, False, "follow", None, id="ahead by itself"),
    ],
)
def test_what_is_committed_for_an_idle_group(
    current: dict[TopicPartition, Committed],
    on_rewind: OnRewind,
    expected: int | None,
    *,
    rewound: bool,
) -> None:
    found = plan_commits([position(9, Exact(7))], current, [("g", REMOTE)] * rewound, on_rewind)

    assert found == ({} if expected is None else {REMOTE: Committed(expected, "note")})


def test_a_partition_without_a_translation_is_not_committed() -> None:
    assert plan_commits([position(9, NoAnswer("nothing replicated", None))], {}, [], "follow") == {}
