"""After how many new rows a map is compacted: soon if that takes milliseconds, never too often."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replication.state.offset_table import COMPACT_AFTER_ROWS, FEWEST_ROWS, due_after


@pytest.mark.parametrize(
    ("left", "with_spark", "quick"),
    [
        (0, 20_000, 200),
        (4, 20_000, 200),
        (30, 20_000, 300),
        (1_000, 20_000, 10_000),
        (5_000, 20_000, 20_000),
        (90_000, 90_000, 90_000),
    ],
)
def test_a_short_map_is_compacted_sooner_without_spark(
    left: int, with_spark: int, quick: int
) -> None:
    assert due_after(left, is_quick=False) == with_spark
    assert due_after(left, is_quick=True) == quick


@pytest.mark.parametrize("is_quick", [True, False])
@given(left=st.integers(0, 10**7))
def test_a_map_has_doubled_and_grown_by_some_rows(left: int, *, is_quick: bool) -> None:
    due = due_after(left, is_quick=is_quick)

    assert max(left, FEWEST_ROWS) <= due <= max(left, COMPACT_AFTER_ROWS)
    assert due <= due_after(left + 1, is_quick=is_quick)
