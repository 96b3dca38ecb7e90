"""Where few offsets hold a record, further windows are as wide as the density asks for."""

from hypothesis import given
from hypothesis import strategies as st

from replication.spark.counting import MOST_GROWTH, next_width


@given(st.integers(1, 100_000), st.integers(1, 1000))
def test_few_windows_find_any_number_of_records(wanted: int, one_in: int) -> None:
    left, width, windows, offsets = wanted, wanted, 0, 0
    while left:
        windows += 1
        offsets += width
        found = min(left, width // one_in)
        left -= found
        if left:
            width = next_width(width, found, left)
    assert windows <= 5 + (wanted < one_in) * 2
    assert offsets <= 20 * wanted * one_in + 100 * MOST_GROWTH * one_in


@given(st.integers(1, 10_000), st.integers(0, 10_000), st.integers(1, 10_000))
def test_a_window_always_grows_and_never_without_bound(width: int, found: int, left: int) -> None:
    assert 1 <= next_width(width, min(found, width), left) <= MOST_GROWTH * width
