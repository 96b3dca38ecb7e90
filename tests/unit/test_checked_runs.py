"""What is written to the offset map is of the topics that later looks have still found."""

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from replication.flows.replicate.map_writer import CheckedRuns
from replication.flows.replicate.topic_ids import IdLooks
from replication.model import Position, TopicPartition
from replication.offsets.pending import PendingRuns, Report
from replication.offsets.runs import OffsetRun
from replication.positions.measure import ComparedIds

if TYPE_CHECKING:
    from collections.abc import Callable

KEPT, REPLACED = TopicPartition("kept", 0), TopicPartition("replaced", 0)
START = Position(0, 0)


class Looks(IdLooks):
    """The looks, which happen when the test says so. One topic is replaced at some time."""

    def __init__(self) -> None:
        super().__init__()
        self.is_replaced = False
        self._now: tuple[frozenset[str], ComparedIds] | None = None

    def look(self, *, is_whole: bool = False) -> None:
        self.look_on()
        self.look_up(is_whole=is_whole)
        self.look_on()

    def look_up(self, *, is_whole: bool = False) -> None:
        """Begins a look, if none is under way, and asks the cluster."""
        if self._now is None and (names := self.begin(["kept", "replaced"], is_whole=is_whole)):
            others = names & {"replaced"} if self.is_replaced else frozenset[str]()
            self._now = names, ComparedIds(others=others)

    def look_on(self) -> None:
        """Takes the answer of a look that is under way."""
        if self._now is not None:
            self.take(*self._now)
            self._now = None

    def look_again(self) -> int:
        self.look(is_whole=True)
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


STEPS = ["copy", "begin", "begin at all", "end", "advance", "take"]


@given(st.lists(st.sampled_from(STEPS), max_size=60), st.data())
def test_nothing_of_a_new_topic_is_taken_for_the_old_ones(
    steps: list[str], data: st.DataObject
) -> None:
    copy, taken = Copy(), {KEPT: 0, REPLACED: 0}
    actions: dict[str, Callable[[], object]] = {
        "copy": copy.copy,
        "begin": copy.looks.look_up,
        "begin at all": lambda: copy.looks.look_up(is_whole=True),
        "end": copy.looks.look_on,
        "advance": copy.checked.advance,
        "take": lambda: None,
        "finish": copy.checked.finish,
    }
    replaced_at, of_the_old_topic = data.draw(st.integers(0, len(steps))), 0
    for number, step in enumerate([*steps, "finish"]):
        if number == replaced_at:
            copy.looks.is_replaced, of_the_old_topic = True, copy.copied
        actions[step]()
        if step in {"take", "finish"}:
            for tp, runs in copy.checked.take().items():
                for run in runs:  # nothing is left out or taken twice
                    assert run.src_from == taken[tp]
                    taken[tp] = run.src_until
    assert taken[KEPT] == copy.copied
    assert taken[REPLACED] <= of_the_old_topic
    assert copy.checked.positions() == {tp: Position(at, at) for tp, at in taken.items()}


def test_a_look_is_at_what_was_copied_and_not_checked_or_at_all() -> None:
    looks, topics = IdLooks(), ["copied", "idle"]
    assert looks.begin(topics, is_whole=False) == frozenset()

    number = looks.want(["copied", "of a plan before"])
    for _ in range(2):
        assert looks.begin(topics, is_whole=False) == {"copied"}
        looks.take(frozenset({"copied"}), ComparedIds())

    assert looks.is_same("copied", number)
    assert not looks.is_same("idle", 1)
    assert looks.begin(topics, is_whole=False) == frozenset()
    assert looks.begin(topics, is_whole=True) == set(topics)
    assert looks.begun == 3


def test_a_topic_is_gone_when_two_looks_at_it_have_missed_it() -> None:
    looks, both = IdLooks(), frozenset({"t", "u"})
    looks.begin(both, is_whole=True)
    looks.take(both, ComparedIds(missing=frozenset({"t"})))
    looks.want(["u"])
    looks.begin(both, is_whole=False)
    looks.take(frozenset({"u"}), ComparedIds())
    assert looks.replaced == {}

    looks.begin(both, is_whole=True)
    gone = "t was deleted on A"
    looks.take(both, ComparedIds(missing=frozenset({"t"}), reasons={"t": gone}))

    assert looks.replaced == {"t": gone}


def test_a_topic_that_no_cluster_tells_of_is_looked_at_again() -> None:
    looks, topic = IdLooks(), frozenset({"t"})
    number = looks.want(topic)
    for _ in range(5):
        assert looks.begin(topic, is_whole=False) == topic
        looks.take(topic, ComparedIds(unknown=topic))

    assert not looks.is_same("t", number)
