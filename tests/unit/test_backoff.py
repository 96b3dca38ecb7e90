"""Pauses that grow: failures in a row in, seconds out."""

from hypothesis import given
from hypothesis import strategies as st

from replication.backoff import Backoff


def test_each_failure_doubles_the_pause_up_to_the_longest() -> None:
    pauses = Backoff(first_seconds=2, longest_seconds=30)

    assert [pauses.after(failures) for failures in range(1, 7)] == [2, 4, 8, 16, 30, 30]


@given(st.floats(0.001, 1e6), st.floats(0.001, 1e6), st.integers(1, 10**9))
def test_no_number_of_failures_makes_the_pause_longer_or_the_next_one_shorter(
    first: float, longest: float, failures: int
) -> None:
    pauses = Backoff(first, longest)

    assert min(first, longest) <= pauses.after(failures) <= longest
    assert pauses.after(failures) <= pauses.after(failures + 1)
