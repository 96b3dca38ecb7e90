"""The map in memory gives the answers of the map in the table, at any time and in any order."""

from hypothesis import given
from hypothesis import strategies as st

from replication.model import TopicPartition
from replication.offsets.map import FEW_RUNS, LiveMap, NoAnswer, OffsetMap, TopicMap
from replication.offsets.runs import RESOLUTION, OffsetRun

TP, OTHER = TopicPartition("orders", 0), TopicPartition("orders", 1)
IDS = {"orders": "id-1"}


@st.composite
def logs(draw: st.DrawFn) -> list[OffsetRun]:
    """Runs of one partition, each continuing the one before, dense and sparse."""
    runs, upstream, downstream = [], draw(st.integers(0, 5)), draw(st.integers(0, 5))
    for _ in range(draw(st.integers(0, 8))):
        width = draw(st.integers(1, 5))
        count = draw(st.integers(0, width))
        runs.append(OffsetRun(upstream, upstream + width, downstream, count))
        upstream, downstream = upstream + width, downstream + count
    return runs


def attached() -> LiveMap:
    live = LiveMap()
    live.attach()
    return live


def answers(runs: OffsetMap) -> list[object]:
    return [runs.translate(committed) for committed in range(50)]


@given(logs(), st.data())
def test_the_answers_are_those_of_all_runs_whatever_was_stored_when_it_was_loaded(
    runs: list[OffsetRun], data: st.DataObject
) -> None:
    before = data.draw(st.integers(0, len(runs)), "stored by an earlier process")
    stored = data.draw(st.integers(before, len(runs)), "stored when the map is loaded")
    live = attached()
    for run in runs[before:]:
        live.add({TP: [run]}, IDS)
    assert live.not_loaded({TP: 0}) == {TP: 0}
    live.load({TP: 0}, {TP: TopicMap("id-1", OffsetMap(runs[:stored]))} if stored else {})

    assert live.not_loaded({TP: 0}) == {}
    known = live.maps([TP])
    assert {tp: (m.topic_id, answers(m.offsets)) for tp, m in known.items()} == (
        {TP: ("id-1", answers(OffsetMap(runs)))} if runs else {}
    )


def test_a_run_that_is_added_later_is_seen() -> None:
    live = attached()
    live.load({TP: 0}, {TP: TopicMap("id-1", OffsetMap([OffsetRun(0, 5, 0, 5)]))})
    first = live.maps([TP])[TP].offsets.replicated_until
    live.add({TP: [OffsetRun(5, 9, 5, 4)]}, IDS)

    assert (first, live.maps([TP])[TP].offsets.replicated_until) == (5, 9)


def test_a_recreated_topic_starts_over() -> None:
    live = attached()
    live.load({TP: 0}, {TP: TopicMap("id-1", OffsetMap([OffsetRun(0, 5, 0, 5)]))})
    live.add({TP: [OffsetRun(0, 2, 5, 2)]}, {"orders": "id-2"})

    newest = live.maps([TP])[TP]
    assert (newest.topic_id, newest.offsets.runs) == ("id-2", (OffsetRun(0, 2, 5, 2),))


def test_a_stored_map_of_another_topic_id_does_not_replace_a_newer_one() -> None:
    live = attached()
    live.add({TP: [OffsetRun(0, 2, 5, 2)]}, {"orders": "id-2"})
    live.load({TP: 0}, {TP: TopicMap("id-1", OffsetMap([OffsetRun(0, 5, 0, 5)]))})

    assert live.maps([TP])[TP].topic_id == "id-2"


def test_an_offset_before_those_that_were_loaded_is_loaded_with_what_follows() -> None:
    live = attached()
    live.load({TP: 5}, {TP: TopicMap("id-1", OffsetMap([OffsetRun(5, 9, 5, 2)]))})
    live.add({TP: [OffsetRun(9, 12, 7, 1)]}, IDS)

    assert (live.not_loaded({TP: 5}), live.not_loaded({TP: 4})) == ({}, {TP: 4})

    whole = [OffsetRun(0, 5, 0, 5), OffsetRun(5, 9, 5, 2)]
    live.load({TP: 4}, {TP: TopicMap("id-1", OffsetMap(whole))})

    assert live.not_loaded({TP: 4, OTHER: 7}) == {OTHER: 7}
    assert live.maps([TP])[TP].offsets.runs == (*whole, OffsetRun(9, 12, 7, 1))


def test_only_what_was_replicated_has_a_map() -> None:
    live = attached()
    live.load({TP: 0, OTHER: 0}, {TP: TopicMap("id-1", OffsetMap([OffsetRun(0, 5, 0, 5)]))})

    assert set(live.maps([TP, OTHER])) == {TP}


def test_the_map_in_memory_keeps_borders_that_the_stored_one_gave_up() -> None:
    live = attached()
    added = (OffsetRun(0, 4, 0, 2), OffsetRun(4, 10, 2, 3), OffsetRun(10, 12, 5, 1))
    live.add({TP: added}, IDS)
    live.load({TP: 0}, {TP: TopicMap("id-1", OffsetMap([OffsetRun(0, 10, 0, 5)]))})

    assert live.maps([TP])[TP].offsets.runs == added


def test_without_a_writer_in_this_process_every_question_reads_the_table_again() -> None:
    live = LiveMap()
    live.load({TP: 0}, {TP: TopicMap("id-1", OffsetMap([OffsetRun(0, 5, 0, 5)]))})

    assert live.not_loaded({TP: 0}) == {TP: 0}


def test_a_writer_that_has_ended_leaves_nothing_behind() -> None:
    live = attached()
    live.add({TP: [OffsetRun(0, 5, 0, 5)]}, IDS)
    live.load({TP: 0}, {})
    live.detach()

    assert (live.not_loaded({TP: 0}), live.maps([TP])) == ({TP: 0}, {})


def test_a_writer_forgets_what_was_loaded_before_it_owned_the_map() -> None:
    live = LiveMap()
    live.load({TP: 0}, {TP: TopicMap("id-1", OffsetMap([OffsetRun(0, 5, 0, 5)]))})
    live.attach()

    assert (live.not_loaded({TP: 0}), live.maps([TP])) == ({TP: 0}, {})


def test_a_forgotten_partition_has_only_what_is_added_afterwards() -> None:
    live = attached()
    live.load({TP: 0}, {TP: TopicMap("id-1", OffsetMap([OffsetRun(0, 5, 0, 5)]))})
    live.add({TP: [OffsetRun(5, 9, 5, 4)]}, IDS)

    live.forget([TP])
    live.add({TP: [OffsetRun(7, 9, 0, 2)]}, IDS)

    assert live.not_loaded({TP: 0}) == {}
    assert live.maps([TP])[TP].offsets.runs == (OffsetRun(7, 9, 0, 2),)


def test_what_was_read_before_a_partition_was_forgotten_is_void() -> None:
    live = attached()
    asked = live.not_loaded({TP: 0})
    read = {TP: TopicMap("id-1", OffsetMap([OffsetRun(0, 5, 0, 5)]))}

    live.forget([TP])
    live.add({TP: [OffsetRun(7, 9, 0, 2)]}, IDS)
    live.load(asked, read)

    assert live.maps([TP])[TP].offsets.runs == (OffsetRun(7, 9, 0, 2),)


def test_a_sparse_partition_stays_small_however_long_the_process_runs() -> None:
    live = attached()
    live.load({TP: 0}, {})
    for record in range(100_000):  # every other offset holds a record
        live.add({TP: [OffsetRun(2 * record, 2 * record + 2, record, 1)]}, IDS)

    offsets = live.maps([TP])[TP].offsets

    assert len(offsets.runs) < 3 * FEW_RUNS
    for record in range(0, 100_000, 997):
        answer = offsets.translate(2 * record)
        assert not isinstance(answer, NoAnswer)
        assert 0 <= record - answer.offset <= (100_000 - record) // RESOLUTION + 1
