"""Of three runs of a test one is with Spark's own source, and two are with the default."""

from collections import Counter

import pytest

from tests.support.gate.choice import SHARES
from tests.support.rotation import FORCED, source_of, source_of_this_test

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
