"""The demo's verdict: red where sides or offset map are wrong, readable without a terminal."""

import io

import pytest
from rich.console import Console

from replication.demo.compare import Difference, Finding, PartitionReport, TopicReport, find
from replication.demo.play import Screen, show
from replication.model import Flow
from replication.offsets.runs import OffsetRun

DENSE = OffsetRun(src_from=0, src_until=3, tgt_from=0, count=3)
SPARSE = OffsetRun(src_from=0, src_until=5, tgt_from=0, count=3)


def finding(
    *runs: OffsetRun,
    offsets: tuple[tuple[int, int], ...] = ((0, 0), (1, 1), (2, 2)),
    difference: Difference | None = None,
    is_running: bool = False,
) -> Finding:
    part = PartitionReport(
        partition=0,
        source_records=3,
        target_records=3,
        missing=0,
        repeated=0,
        extra=0,
        sections=1,
        difference=difference,
        offsets=offsets,
    )
    report = TopicReport("orders", "us-west.orders", (part,))
    latencies = {"us-west.orders": [0.5, 1.5]}
    (found,) = find({"orders": report}, latencies, lambda _: runs, is_running=is_running)
    return found


def shown(found: Finding) -> str:
    text = io.StringIO()
    show(Screen(Console(file=text, width=130)), Flow("us-west", "us-east"), [found])
    return text.getvalue()


@pytest.mark.parametrize(
    ("runs", "offsets", "wrong"),
    [
        pytest.param([DENSE], ((0, 0), (2, 2)), None, id="exact"),
        pytest.param(
            [DENSE], ((0, 0), (2, 1)), "orders-0: the copy of offset 2 is at 1", id="exactly wrong"
        ),
        pytest.param([SPARSE], ((0, 0), (2, 1), (4, 2)), None, id="within the bound"),
        pytest.param(
            [SPARSE], ((4, 0),), "orders-0: the copy of offset 4 is at 0", id="would skip a record"
        ),
        pytest.param([], ((0, 0),), "orders-0: the copy of offset 0 is at 0", id="no map"),
    ],
)
def test_the_offset_map_is_held_against_the_records(
    runs: list[OffsetRun], offsets: tuple[tuple[int, int], ...], wrong: str | None
) -> None:
    found = finding(*runs, offsets=offsets)

    assert (found.wrong is None) == (wrong is None)
    assert (wrong or "") in (found.wrong or "")
    assert found.is_right == (wrong is None)


def test_a_running_mirror_may_still_write_its_offset_map() -> None:
    half = OffsetRun(src_from=0, src_until=2, tgt_from=0, count=2)

    running, stopped = finding(half, is_running=True), finding(half)
    nothing = finding(OffsetRun(0, 0, 0, 0), is_running=True)

    assert (running.is_right, running.offset_map) == (True, "dense, 1 run, 1 to come")
    assert "The offset map is right for the 2 it covers by now." in shown(running)
    assert (stopped.is_right, stopped.wrong) == (False, "the offset map lacks 1 records")
    assert (nothing.is_right, nothing.offset_map) == (True, "not written yet")


def test_a_difference_is_shown_and_makes_the_verdict() -> None:
    found = finding(DENSE, difference=Difference(0, 2, 2, "value b'[x]' became None"))

    assert not found.is_right
    assert "value b'[x]' became None" in shown(found)
    assert "Different" in shown(found)


def test_without_a_terminal_no_control_character_is_printed() -> None:
    text = shown(finding(DENSE))

    assert "\x1b" not in text
    assert "dense, 1 run " in text
    assert "Equal: 3 records on both sides" in text
