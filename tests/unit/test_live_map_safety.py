"""The map in memory never leads past a record, however its table is written and loaded meanwhile.

The truth is `CopiedPartition`, in which replication is rewound, skips, and leaves batches out of
the map.
"""

from hypothesis import given, settings
from hypothesis import strategies as st

from replication.model import Position, TopicPartition
from replication.offsets.map import LiveMap, NoAnswer, OffsetMap, TopicMap
from replication.offsets.pending import WaitingRuns
from replication.offsets.runs import OffsetRun, anchor
from tests.support.copied_partition import CopiedPartition, copied_partitions

TP = TopicPartition("orders", 0)
IDS = {"orders": "id-1"}


class Table:
    """The rows of one partition: written behind, and coarser than what is written."""

    def __init__(self, spacing: int) -> None:
        self._waiting, self.rows = WaitingRuns(spacing), list[OffsetRun]()

    def add(self, run: OffsetRun) -> None:
        self._waiting.add(run)

    def write(self) -> None:
        self.rows += self._waiting.take()

    def read(self) -> dict[TopicPartition, TopicMap]:
        return {TP: TopicMap("id-1", OffsetMap(self.rows))} if self.rows else {}


def assert_safe(copied: CopiedPartition, live: LiveMap) -> None:
    known = live.maps([TP]).get(TP)
    for committed in range(copied.source_end + 1) if known else ():
        answer = known.offsets.translate(committed) if known else NoAnswer("nothing replicated", 0)
        if isinstance(answer, NoAnswer):
            continue
        assert answer.offset <= copied.true_position(committed), committed
        again = copied.reread(committed, max(answer.offset, copied.first))
        assert again <= answer.reread, committed


@settings(max_examples=500, deadline=None)
@given(copied_partitions(unrecorded=True), st.sampled_from([0, 3, 100]), st.data())
def test_no_answer_leads_past_a_record_whenever_the_table_is_written_and_loaded(
    copied: CopiedPartition, spacing: int, data: st.DataObject
) -> None:
    before = data.draw(st.integers(0, len(copied.runs)), "runs of an earlier process")
    table = Table(spacing)
    for run in copied.runs[:before]:
        table.add(run)
    table.write()
    live = LiveMap()
    live.attach()
    for run in copied.runs[before:]:
        live.add({TP: [run]}, IDS)
        table.add(run)
        table.write()
        if data.draw(st.integers(0, 3)) == 0:
            asked = live.not_loaded({TP: 1})
            live.load(asked, table.read() if asked else {})

    asked = live.not_loaded({TP: 0})
    live.load(asked, table.read() if asked else {})
    assert_safe(copied, live)


def test_a_position_where_the_target_ended_outlives_a_rewind_from_there() -> None:
    # offsets 100 to 149 are on the target and in no run; then the flow starts over
    stored = [OffsetRun(0, 100, 0, 100), anchor(Position(150, 150))]
    rewound = [anchor(Position(0, 150))]
    live = LiveMap()
    live.attach()
    live.add({TP: rewound}, IDS)
    live.load({TP: 0}, {TP: TopicMap("id-1", OffsetMap(stored))})

    in_memory, whole = live.maps([TP])[TP].offsets, OffsetMap([*stored, *rewound])
    for committed in range(160):
        assert in_memory.translate(committed) == whole.translate(committed)


@given(copied_partitions(unrecorded=True), st.data())
def test_rows_that_were_read_before_a_writer_came_are_not_taken_after_it(
    copied: CopiedPartition, data: st.DataObject
) -> None:
    runs, live, table = copied.runs, LiveMap(), Table(0)
    read = data.draw(st.integers(0, len(runs)), "runs that are read")
    owned = data.draw(st.integers(read, len(runs)), "runs of other processes")
    for run in runs[:read]:
        table.add(run)
    table.write()
    asked, early = live.not_loaded({TP: 0}), table.read()
    for run in runs[read:owned]:
        table.add(run)
    table.write()
    live.attach()
    live.add({TP: runs[owned:]}, IDS)

    live.load(asked, early)

    assert live.maps([TP], asked) == {}, "what was stored in between is missing"
    assert live.not_loaded({TP: 0}) == {TP: 0}
    live.load(live.not_loaded({TP: 0}), table.read())
    assert_safe(copied, live)


def test_a_writer_that_goes_takes_the_maps_with_it_while_somebody_asks() -> None:
    live = LiveMap()
    live.attach()
    live.load({TP: 0}, {TP: TopicMap("id-1", OffsetMap([OffsetRun(0, 100, 0, 100)]))})
    asked = live.not_loaded({TP: 0})
    live.detach()
    live.attach()
    live.add({TP: [anchor(Position(0, 150))]}, IDS)

    assert (asked, live.maps([TP], asked)) == ({}, {})
