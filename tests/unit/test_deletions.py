"""Topics that are deleted on the source: what is reported, and what is deleted on the target."""

from collections.abc import Mapping
from datetime import datetime, timedelta, timezone

import pytest

from replication.topics.deletions import (
    DeletionPlan,
    Replicated,
    TopicId,
    Topics,
    fate,
    missing_since,
    plan_deletions,
)

KEPT = Replicated("kept", "k1", "A.kept", "k2")
GONE = Replicated("gone", "g1", "A.gone", "g2")
SOURCE = {"kept": "k1"}
TARGET = {"A.kept": "k2", "A.gone": "g2"}
NOON = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
HOUR = timedelta(hours=1)
LONG_AGO = {("gone", "g1"): NOON - HOUR}


def plan(
    topics: Topics,
    since: Mapping[TopicId, datetime] | None = None,
    grace: timedelta | None = HOUR,
) -> DeletionPlan:
    return plan_deletions([KEPT, GONE], topics, since or {}, NOON, grace)


@pytest.mark.parametrize(
    ("topics", "since", "expected"),
    [
        pytest.param(Topics({**SOURCE, "gone": "g1"}, TARGET), {}, DeletionPlan(), id="all there"),
        pytest.param(Topics(SOURCE, TARGET), {}, DeletionPlan(missing=(GONE,)), id="missing"),
        pytest.param(Topics(SOURCE, TARGET, {"gone"}), {}, DeletionPlan(), id="not visible"),
        pytest.param(
            Topics({**SOURCE, "gone": "new"}, TARGET), {}, DeletionPlan(), id="created again"
        ),
        pytest.param(
            Topics({**SOURCE, "gone": "g1"}, TARGET),
            LONG_AGO,
            DeletionPlan(back=(GONE,)),
            id="back",
        ),
    ],
)
def test_a_topic_that_is_deleted_on_the_source_is_reported_once(
    topics: Topics, since: Mapping[TopicId, datetime], expected: DeletionPlan
) -> None:
    assert plan(topics, since) == expected


@pytest.mark.parametrize(
    "grace", [pytest.param(HOUR, id="an hour"), pytest.param(timedelta(0), id="none")]
)
def test_its_remote_topic_is_deleted_after_the_grace_time(grace: timedelta) -> None:
    assert plan(Topics(SOURCE, TARGET), LONG_AGO, grace) == DeletionPlan(delete=(GONE,))


@pytest.mark.parametrize(
    ("topics", "grace"),
    [
        pytest.param(Topics(SOURCE, TARGET), None, id="deletions are off"),
        pytest.param(Topics(SOURCE, TARGET), HOUR + timedelta(seconds=1), id="too early"),
        pytest.param(Topics(SOURCE, TARGET, {"gone"}), HOUR, id="the source topic is not visible"),
        pytest.param(Topics({**SOURCE, "gone": "new"}, TARGET), HOUR, id="created again there"),
        pytest.param(Topics(SOURCE, {**TARGET, "A.gone": "x"}), HOUR, id="another remote topic"),
        pytest.param(Topics(SOURCE, {"A.kept": "k2"}), HOUR, id="no remote topic"),
    ],
)
def test_it_stays_if_anything_speaks_against_its_deletion(
    topics: Topics, grace: timedelta | None
) -> None:
    assert plan(topics, LONG_AGO, grace) == DeletionPlan()


@pytest.mark.parametrize(
    "source", [pytest.param({}, id="empty"), pytest.param({"kept": "x"}, id="a clone")]
)
def test_nothing_is_deleted_if_the_source_looks_like_another_cluster(
    source: dict[str, str],
) -> None:
    since = {("kept", "k1"): NOON - HOUR, **LONG_AGO}

    assert plan(Topics(source, TARGET), since) == DeletionPlan(is_doubtful=True)


def test_the_grace_time_counts_from_the_last_time_that_the_topic_went_missing() -> None:
    rows = [
        {"topic": "gone", "topic_id": "g1", "state": state, "at": NOON + number * HOUR}
        for number, state in ((2, "missing"), (0, "missing"), (1, "back"), (3, "deleted"))
    ]

    assert missing_since(rows) == {("gone", "g1"): NOON + 2 * HOUR}


@pytest.mark.parametrize(
    ("target", "unknown", "grace", "said"),
    [
        pytest.param(TARGET, {}, None, "stays on B", id="there"),
        pytest.param({}, {}, None, "is not on B either", id="deleted, too"),
        pytest.param({}, {}, HOUR, "is not on B either", id="deleted, too, before its time"),
        pytest.param(
            {"A.gone": "x"}, {}, HOUR, "was created again on B since, and stays", id="another one"
        ),
        pytest.param({}, {"A.gone": "denied"}, HOUR, "may be on B or not: denied", id="hidden"),
        pytest.param(
            TARGET,
            {},
            HOUR,
            "is deleted on B after 1:00:00, unless the topic comes back or none of the flow's "
            "topics is left",
            id="to be deleted",
        ),
    ],
)
def test_what_is_said_of_the_remote_topic_is_so(
    target: Mapping[str, str], unknown: Mapping[str, str], grace: timedelta | None, said: str
) -> None:
    assert fate(GONE, Topics(SOURCE, target, (), unknown), "B", grace) == said
