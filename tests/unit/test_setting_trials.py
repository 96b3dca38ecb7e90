"""Of settings that a cluster rejects together, all those that it takes are found."""

from collections.abc import Collection

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replication.topics.configs import SettingTrials, first_named

KEYS = ["retention.ms", "delete.retention.ms", "segment.ms", "max.message.bytes", "a.b"]


@pytest.mark.parametrize(
    ("sent", "reason", "rejected", "waiting"),
    [
        pytest.param("a.ms b.a.ms c.ms", "no: b.a.ms", "b.a.ms", ["a.ms c.ms"], id="one named"),
        pytest.param("a.ms b.a.ms", "a.ms above b.a.ms", "a.ms", ["b.a.ms"], id="the first named"),
        pytest.param("a.ms b.ms c.ms", "not here", "", ["a.ms", "b.ms", "c.ms"], id="none named"),
        pytest.param("c.ms", "not here", "c.ms", [], id="the only one"),
        pytest.param("c.ms", "c.ms is wrong", "c.ms", [], id="the only one, named"),
    ],
)
def test_what_is_sent_after_a_rejection(
    sent: str, reason: str, rejected: str, waiting: list[str]
) -> None:
    trials = SettingTrials.of(sent.split())

    trials.settle(reason)

    assert list(trials.rejected) == rejected.split()
    assert trials.waiting == [tuple(keys.split()) for keys in waiting]


@pytest.mark.parametrize(
    ("keys", "reason", "named"),
    [
        ("new.key retention.ms", "Unknown topic config name: new.key", "new.key"),
        ("retention.ms delete.retention.ms", "-9 for delete.retention.ms", "delete.retention.ms"),
        ("retention.ms segment.ms", "9 for segment.ms: above retention.ms", "segment.ms"),
        ("retention.ms", "set local.retention.ms or retention.ms.limit", None),
        ("retention.ms segment.ms", "this cluster limits retention.ms.", "retention.ms"),
        ("retention.ms", "not like this", None),
        ("", "not like this", None),
    ],
)
def test_the_key_that_a_text_names_first(keys: str, reason: str, named: str | None) -> None:
    assert first_named(keys.split(), reason) == named


@given(
    keys=st.lists(st.sampled_from(KEYS), unique=True),
    bad=st.sets(st.sampled_from(KEYS)),
    names=st.sets(st.sampled_from(KEYS)),
)
def test_exactly_the_settings_that_the_cluster_takes_are_found(
    keys: list[str], bad: set[str], names: set[str]
) -> None:
    def answer(sent: Collection[str]) -> str | None:
        wrong = sorted(bad & set(sent))
        if not wrong:
            return None
        return f"wrong: {wrong[0]}" if wrong[0] in names else "not here"

    trials, requests = SettingTrials.of(keys), 0
    while trials.waiting:
        trials.settle(answer([*trials.taken, *trials.waiting[0]]))
        requests += 1

    assert set(trials.taken) == set(keys) - bad
    assert set(trials.rejected) == set(keys) & bad
    assert requests <= 2 * len(keys) + 1
