"""What follows a group's offset when only markers of transactions do."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replication.offsets.map import OffsetMap
from replication.offsets.runs import OffsetRun

RECORDS = OffsetRun(0, 5, 100, 5)
MARKER = OffsetRun(5, 6, 105, 0)


@pytest.mark.parametrize(
    ("runs", "committed", "expected"),
    [
        pytest.param([RECORDS], 5, 5, id="all is read, and no marker is passed yet"),
        pytest.param([RECORDS, MARKER], 5, 6, id="all is read, and the marker is passed"),
        pytest.param([RECORDS, MARKER], 6, 6, id="the group has passed it as well"),
        pytest.param([RECORDS, MARKER], 4, 4, id="a record is left"),
        pytest.param([RECORDS, MARKER, OffsetRun(6, 8, 105, 2)], 5, 5, id="records follow it"),
        pytest.param([RECORDS, MARKER], 9, 9, id="the group is ahead of the map"),
        pytest.param([OffsetRun(3, 5, 0, 2)], 1, 1, id="it begins before the map"),
        pytest.param([], 7, 7, id="nothing is replicated"),
    ],
)
def test_a_marker_is_nothing_to_read(runs: list[OffsetRun], committed: int, expected: int) -> None:
    assert OffsetMap(runs).empty_until(committed) == expected


@given(st.lists(st.sampled_from(["record", "marker"]), min_size=1, max_size=30), st.data())
def test_no_record_is_ever_passed(log: list[str], data: st.DataObject) -> None:
    """Runs are cut anywhere, each a stretch of one kind, as batches and passed markers are."""
    runs, copied = [], 0
    for offset, kind in enumerate(log):
        count = int(kind == "record")
        runs.append(OffsetRun(offset, offset + 1, copied, count))
        copied += count
    known = data.draw(st.integers(1, len(log)), "how much of it is in the map")
    committed = data.draw(st.integers(0, len(log)), "committed")

    found = OffsetMap(runs[:known]).empty_until(committed)

    assert found >= committed
    assert "record" not in log[committed:found]
    if committed <= known and "record" not in log[committed:known]:
        assert found == known
