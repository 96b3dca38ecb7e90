"""Topics created again: ids and log ends in, whether a stored position holds out."""

import pytest

from replication.offsets.guard import Recreated, TopicIds, Void, check_topic_ids

STORED = TopicIds("s1", "r1")
NEW_REMOTE = Void("remote topic A.t was deleted and created again")
AGAIN = "topic t was deleted and created again (id s1, now s2)"


@pytest.mark.parametrize(
    ("stored", "now", "log_end", "expected"),
    [
        pytest.param(STORED, STORED, 9, None, id="the same topics"),
        pytest.param(STORED, STORED, 0, None, id="the same remote topic, emptied"),
        pytest.param(STORED, TopicIds("s1", None), None, None, id="a remote topic to be created"),
        pytest.param(STORED, TopicIds("s1", "r2"), 0, NEW_REMOTE, id="a new remote topic"),
        pytest.param(STORED, TopicIds("s2", "r2"), 5, NEW_REMOTE, id="two new topics"),
        pytest.param(STORED, TopicIds("s2", "r1"), 0, Void(AGAIN), id="source, nothing copied"),
        pytest.param(
            STORED,
            TopicIds("s2", "r1"),
            9,
            Recreated(f"{AGAIN}, and A.t still holds records of the deleted topic"),
            id="a new source topic",
        ),
        pytest.param(
            TopicIds("s1", None),
            TopicIds("s1", "r1"),
            0,
            Void("remote topic A.t is empty"),
            id="no stored id, an empty remote topic",
        ),
        pytest.param(TopicIds("s1", None), STORED, 9, None, id="no stored id"),
    ],
)
def test_a_position_holds_only_for_the_topics_it_was_stored_for(
    stored: TopicIds, now: TopicIds, log_end: int | None, expected: Void | Recreated | None
) -> None:
    assert check_topic_ids(("t", "A.t"), stored, now, 9, log_end) == expected
