"""Of three runs of a guarantee's test one is by Spark's own source; others have the default."""

from collections import Counter
from types import SimpleNamespace

import pytest

from tests.support import rotation
from tests.support.gate.choice import SHARES
from tests.support.rotation import FORCED, GUARANTEES, source_of, source_of_this_test

NAMES = [f"tests/cluster/test_a.py::test_{number}[realtime]" for number in range(300)]


@pytest.mark.parametrize("first", range(SHARES))
def test_one_of_three_runs_is_with_spark_s_source(first: int) -> None:
    for name in NAMES:  # the gate runs a test at each third commit
        sources = Counter(source_of(name, first + SHARES * run) for run in range(SHARES))
        assert sources == {"spark": 1, "auto": 2}


def test_about_a_third_of_the_tests_has_it_at_each_commit() -> None:
    for commits in range(SHARES):
        found = Counter(source_of(name, commits) for name in NAMES)
        assert 60 < found["spark"] < 140


def test_one_source_may_be_asked_for_in_all_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FORCED, "shared")

    assert source_of_this_test() == "shared"


def test_only_a_test_of_a_guarantee_may_read_by_spark_s_source(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(FORCED, raising=False)
    monkeypatch.setattr(rotation, "source_of", lambda *_: "spark")

    assert source_of_this_test() == "auto"
    monkeypatch.setattr(rotation, "GUARANTEES", {request.node.nodeid})
    assert source_of_this_test() == "spark"


def test_marked_tests_are_known_as_those_of_guarantees(pytestconfig: pytest.Config) -> None:
    item = SimpleNamespace(nodeid="tests/a.py::test_b", keywords={"guarantee": True})
    pytestconfig.hook.pytest_itemcollected(item=item)

    assert item.nodeid in GUARANTEES
