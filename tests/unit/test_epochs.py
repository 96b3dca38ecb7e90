"""What leaders' epochs say of logs that were cut, for any history of elections."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replication.model import Position
from replication.offsets.runs import (
    UNKNOWN,
    UNSTAMPED,
    Epochs,
    Stamp,
    Stamps,
    cut_of,
    is_in_doubt,
    unchanged,
)


@dataclass
class Log:
    """A log: the epoch of each record, and that of today's leader."""

    records: list[int] = field(default_factory=list)
    leader: int = 0

    def elect(self, left: int) -> None:
        """A replica that has so many records becomes the leader; it may have less than all."""
        del self.records[left:]
        self.leader += 1

    def same_until(self, stamp: Stamp) -> int:
        """As brokers answer OffsetForLeaderEpoch, and Kafka's consumer takes it."""
        end = next((at for at, own in enumerate(self.records) if own > stamp.epoch), None)
        return min(stamp.until, len(self.records) if end is None else end)


Step = tuple[str, int]
STEPS = st.lists(
    st.tuples(st.sampled_from(["grow", "clean", "unclean", "copy"]), st.integers(0, 9)), max_size=30
)


@given(before=STEPS, after=STEPS)
def test_a_log_that_was_cut_below_what_was_copied_is_known_however_it_has_grown(
    before: list[Step], after: list[Step]
) -> None:
    log = Log()

    def run(steps: list[Step]) -> int:
        lowest = len(log.records)
        for kind, number in steps:
            if kind == "grow":
                log.records += [log.leader] * number
            elif kind in {"clean", "unclean"}:
                log.elect(max(0, len(log.records) - (number if kind == "unclean" else 0)))
            lowest = min(lowest, len(log.records))
        return lowest

    run(before)
    stamp = Stamp(len(log.records), log.leader)
    lowest = run(after)

    same = log.same_until(stamp) if is_in_doubt(stamp, log.leader) else None
    cut = cut_of(stamp.until, stamp, log.leader, same)

    assert cut == (lowest if lowest < stamp.until else "no")


@pytest.mark.parametrize(
    ("at", "stamp", "now", "same_until", "cut"),
    [
        pytest.param(100, None, 3, None, "unknown", id="a map of an earlier version"),
        pytest.param(100, Stamp(100, 2), None, None, "unknown", id="a broker that says no epoch"),
        pytest.param(100, Stamp(100, 2), 3, None, "unknown", id="no answer about the old leader"),
        pytest.param(100, Stamp(100, 2), 3, 100, "no", id="a clean election"),
        pytest.param(100, Stamp(100, 2), 3, 99, 99, id="an unclean one"),
        pytest.param(100, Stamp(90, 2), 2, None, "no", id="copied on under the same leader"),
        pytest.param(100, Stamp(90, 2), 3, 90, "unknown", id="copied on, by nobody knows whom"),
        pytest.param(100, Stamp(90, 2), 3, 80, 80, id="copied on, and cut below the stamp"),
    ],
)
def test_nothing_unknown_is_taken_for_known(
    at: int, stamp: Stamp | None, now: int | None, same_until: int | None, cut: int | str
) -> None:
    assert cut_of(at, stamp, now, same_until) == cut


def test_an_epoch_is_that_of_a_run_only_if_it_was_so_before_and_afterwards() -> None:
    assert unchanged(Epochs(1, 2), Epochs(1, 2)) == Epochs(1, 2)
    assert unchanged(Epochs(1, 2), Epochs(3, 2)) == Epochs(None, 2)
    assert unchanged(UNKNOWN, Epochs(1, 2)) == UNKNOWN
    assert unchanged(Epochs(1, 2), UNKNOWN) == UNKNOWN


def test_a_stamp_stays_where_a_later_look_says_nothing() -> None:
    stamps = UNSTAMPED.renewed(Position(10, 5), Epochs(1, 2)).renewed(
        Position(20, 15), Epochs(None, 2)
    )

    assert stamps == Stamps(Stamp(10, 1), Stamp(15, 2))
