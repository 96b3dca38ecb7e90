"""What is written to the offset map is of the topics that later looks have still found."""

from hypothesis import given
from hypothesis import strategies as st

from replication.flows.replicate.checked_runs import CheckedRuns
from replication.model import Position, TopicPartition
from replication.offsets.pending import PendingRuns, Report
from replication.offsets.runs import OffsetRun

KEPT, REPLACED = TopicPartition("kept", 0), TopicPartition("replaced", 0)
START = Position(0, 0)


class Looks:
    """Looks that happen when the test says so. One topic is replaced at some time."""

    def __init__(self) -> None:
        self.begun, self.is_replaced, self._same = 0, False, dict[str, int]()

    def look(self) -> None:
        self.begun += 1
        self._same |= dict.fromkeys(
            ["kept"] if self.is_replaced else ["kept", "replaced"], self.begun
        )

    def is_same(self, topic: str, look: int) -> bool:
        return self._same.get(topic, 0) >= look

    def look_again(self) -> int:
        self.look()
        return self.begun


class Copy:
    """A generation with two partitions, of which each step copies one record."""

    def __init__(self) -> None:
        self.looks, self.copied = Looks(), 0
        self._pending = PendingRuns({KEPT: START, REPLACED: START}, spacing=0)
        self.checked = CheckedRuns(self._pending, self.looks, 0)

    def copy(self) -> None:
        for tp in (KEPT, REPLACED):
            run = OffsetRun(self.copied, self.copied + 1, self.copied, 1)
            self._pending.add_acknowledged(tp, Report([run]))
        self.copied += 1


def test_a_record_counts_once_a_look_that_began_after_it_has_found_its_topic() -> None:
    copy = Copy()
    copy.copy()
    copy.checked.advance()
    copy.looks.look()  # by a broker that may be a moment late
    copy.checked.advance()
    assert copy.checked.take() == {}

    copy.looks.look()
    copy.checked.advance()

    assert copy.checked.take() == {tp: [OffsetRun(0, 1, 0, 1)] for tp in (KEPT, REPLACED)}
    assert copy.checked.positions() == {tp: Position(1, 1) for tp in (KEPT, REPLACED)}


@given(st.lists(st.sampled_from(["copy", "look", "advance", "take"]), max_size=40), st.data())
def test_nothing_of_a_new_topic_is_taken_for_the_old_ones(
    steps: list[str], data: st.DataObject
) -> None:
    copy, taken = Copy(), {KEPT: 0, REPLACED: 0}
    replaced_at, of_the_old_topic = data.draw(st.integers(0, len(steps))), 0
    for number, step in enumerate([*steps, "finish"]):
        if number == replaced_at:
            copy.looks.is_replaced, of_the_old_topic = True, copy.copied
        if step == "copy":
            copy.copy()
        elif step == "look":
            copy.looks.look()
        elif step == "advance":
            copy.checked.advance()
        elif step == "finish":
            copy.checked.finish()
        if step in {"take", "finish"}:
            for tp, runs in copy.checked.take().items():
                for run in runs:  # nothing is left out or taken twice
                    assert run.src_from == taken[tp]
                    taken[tp] = run.src_until
    assert taken[KEPT] == copy.copied
    assert taken[REPLACED] <= of_the_old_topic
    assert copy.checked.positions() == {tp: Position(at, at) for tp, at in taken.items()}
