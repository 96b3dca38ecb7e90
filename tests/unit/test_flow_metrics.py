"""The metrics of a flow: readers see whole figures, and hold nobody up."""

import subprocess
import sys
from threading import Thread

from replication.errors import ClusterError
from replication.flows.flow_metrics import FlowMetrics
from replication.model import Position, TopicPartition
from replication.offsets.pending import Copied
from replication.offsets.runs import OffsetRun
from replication.spark.mode import Reading
from replication.topics.topic_plan import TopicPlan

TP, OTHER = TopicPartition("t", 0), TopicPartition("u", 3)
STARTS = {TP: Position(100, 60), OTHER: Position(0, 0)}


def begun() -> FlowMetrics:
    """A board on which generation 7 has begun."""
    ids = {"t": "s1", "u": "s2"}
    topics = {"t": "A.t", "u": "A.u"}
    metrics = FlowMetrics()
    metrics.begin(7, "realtime", TopicPlan(topics, (), {}, tuple(STARTS), ids, {}), STARTS)
    return metrics


def test_what_was_read_does_not_change_while_the_flow_goes_on() -> None:
    metrics = begun()
    before = metrics.look()

    metrics.turn_to("replicating")
    metrics.add({TP: [OffsetRun(100, 105, 60, 5), OffsetRun(107, 110, 65, 3)]})
    after = metrics.look()

    assert (before.state.activity, before.copying.positions) == ("starting", STARTS)
    assert (before.copying.records, before.copying.newest_at) == ({}, None)
    assert after.state.activity == "replicating"
    assert after.copying.positions == {**STARTS, TP: Position(110, 68)}
    assert after.copying.records == {"t": 8}
    assert after.copying.newest_at is not None
    assert (after.copying.mode, after.copying.generations) == ("realtime", (7,))


def test_offsets_without_records_move_a_position_and_count_nothing() -> None:
    metrics = begun()

    metrics.add({OTHER: [OffsetRun(0, 40, 0, 0)]})

    copying = metrics.look().copying
    assert copying.positions[OTHER] == Position(40, 0)
    assert (copying.records.get("u", 0), copying.newest_at) == (0, None)


def test_what_executors_report_is_summed_up_by_topic() -> None:
    metrics = begun()

    metrics.add_copied([(TP, Copied(70, 2_000, 900)), (OTHER, Copied(5, -1, -1))])
    metrics.add_copied([(TP, Copied(30, 1_500, 800))])

    copying = metrics.look().copying
    assert copying.bytes == {"t": 100, "u": 5}
    assert copying.newest_ms == {"t": 2_000, "u": -1}
    assert copying.source_ms == {TP: 900}


def test_generations_end_together_and_sums_stay() -> None:
    metrics = begun()
    metrics.add({TP: [OffsetRun(100, 105, 60, 5)]})
    more = TopicPartition("v", 0)
    plan = TopicPlan({"v": "A.v"}, (), {}, (more,), {"v": "s3"}, {})
    metrics.begin(8, "realtime", plan, {more: Position(0, 0)})
    metrics.reads([Reading("realtime", "shared", 2), Reading("realtime", "shared", 1)])
    both = metrics.look().copying

    metrics.end()

    copying = metrics.look().copying
    assert both.generations == (7, 8)
    assert both.tasks == {"shared": 3}
    assert both.topics == {"t": "A.t", "u": "A.u", "v": "A.v"}
    assert (copying.generations, copying.tasks, copying.topics) == ((), {}, {})
    assert copying.positions == {**STARTS, TP: Position(105, 65), more: Position(0, 0)}
    assert copying.records == {"t": 5}


def test_a_state_lasts_since_it_began() -> None:
    metrics = FlowMetrics()
    metrics.turn_to("waiting", "cluster A does not answer")
    first = metrics.look().state

    metrics.turn_to("waiting", "cluster A does not answer")
    second = metrics.look().state
    metrics.turn_to("waiting", "cluster B does not answer")

    assert second is first
    assert metrics.look().state.reason == "cluster B does not answer"


def test_what_is_set_aside_is_on_the_board_until_it_is_taken_back() -> None:
    metrics = FlowMetrics()
    metrics.set_aside({"t": ClusterError("too long"), TP: ClusterError("no leader")})
    both = metrics.look().aside

    metrics.take_back(["t"])

    assert [str(error) for error in both.values()] == ["too long", "no leader"]
    assert metrics.look().aside.keys() == {TP}


def test_a_reader_beside_the_writer_sees_figures_that_fit_each_other() -> None:
    metrics, records = begun(), 5_000

    def write() -> None:
        for at in range(records):
            metrics.add({TP: [OffsetRun(100 + at, 101 + at, 60 + at, 1)]})

    writer = Thread(target=write)
    writer.start()
    seen: list[int] = []
    while writer.is_alive() or not seen:
        copying = metrics.look().copying
        position = copying.positions[TP]
        assert copying.records.get("t", 0) == position.upstream - 100 == position.downstream - 60
        seen.append(position.upstream)
    writer.join()

    assert seen == sorted(seen)
    assert metrics.look().copying.records == {"t": records}


def test_a_look_needs_neither_a_jvm_nor_a_lock() -> None:
    code = (
        "import sys; from replication.flows.flow_metrics import FlowMetrics; FlowMetrics().look();"
        "print({'pyspark', 'py4j', 'confluent_kafka'} & sys.modules.keys())"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "set()"
    assert not any("lock" in name.lower() for name in vars(FlowMetrics()))


def test_what_the_target_keeps_less_is_news_once() -> None:
    metrics = FlowMetrics()

    first = metrics.note_losses(["t", "u"], {"t": ("t keeps less", "mend t")})
    second = metrics.note_losses(["u"], {"u": ("u keeps less", "mend u")})
    third = metrics.note_losses(["t"], {})

    assert (first, second, third) == (["t keeps less"], ["u keeps less"], [])
    assert metrics.losses == {"u": ("u keeps less", "mend u")}
    assert metrics.note_losses(["t"], {"t": ("t keeps less", "mend t")}) == []


def test_records_that_only_the_target_knows_of_are_counted_once() -> None:
    metrics = FlowMetrics()
    found = {TP: [OffsetRun(100, 110, 60, 8)], OTHER: [OffsetRun(0, 5, 0, 5)]}
    positions = {TP: Position(110, 68), OTHER: Position(5, 5)}

    metrics.settle(positions, found)
    of_others = metrics.look().copying.records
    metrics.add({TP: [OffsetRun(110, 113, 68, 3)]})
    late = {TP: [OffsetRun(110, 120, 68, 10)], OTHER: [OffsetRun(5, 9, 5, 2)]}
    metrics.settle({TP: Position(120, 78), OTHER: Position(9, 7)}, late)
    metrics.settle({TP: Position(120, 78), OTHER: Position(9, 7)}, late)
    ours = metrics.look().copying
    metrics.own()
    metrics.settle({TP: Position(130, 88)}, {TP: [OffsetRun(120, 130, 78, 10)]})

    assert of_others == {}
    assert (ours.records, ours.newest_at is None) == ({"t": 10, "u": 2}, False)
    assert metrics.look().copying.records == ours.records
