"""Where partitions start: log ends, anchors and topic ids in, decisions out."""

from dataclasses import dataclass, field

from replication.config.parse import parse
from replication.config.tree import FlowConfig
from replication.flows.replicate.starts import Offsets, plan_starts
from replication.model import Position, TopicPartition
from replication.offsets.resume import Problem, Resume, StartFresh
from replication.state.offset_rows import Anchor
from replication.topics.topic_plan import TopicPlan

TP = TopicPartition("t", 0)
REMOTE_IDS = {"A.t": "r1"}


@dataclass(frozen=True, slots=True)
class Map:
    """The offset map of a partition whose first 60 records were copied from offset 40 on."""

    anchors: dict[TopicPartition, Anchor] = field(
        default_factory=lambda: {TP: Anchor(Position(100, 60), "s1")}
    )
    remote_ids: dict[str, str] = field(default_factory=lambda: REMOTE_IDS)


def flow(reset: str) -> FlowConfig:
    """The flow A->B that starts new partitions at *reset*."""
    servers = {"clusters": "A, B", "A.bootstrap.servers": "a:1", "B.bootstrap.servers": "b:1"}
    settings = {**servers, "A->B.enabled": "true", "consumer.auto.offset.reset": reset}
    return parse("test", settings, default_state_dir="file:///state").flows[0]


def plan(source_id: str, remote_id: str) -> TopicPlan:
    """A plan for the topic, whose ids are these now."""
    return TopicPlan({"t": "A.t"}, (), {}, (TP,), {"t": source_id}, {"A.t": remote_id})


def offsets(target_end: int) -> Offsets:
    """A source whose retention has passed offset 40, and so many records on the target."""
    return Offsets({TP: 40}, {TP: 120}, {TP: target_end})


def test_the_map_decides_for_the_topics_that_it_is_of() -> None:
    starts = plan_starts(flow("earliest"), plan("s1", "r1"), Map(), offsets(60))

    assert starts.decisions == {TP: Resume(Position(100, 60))}
    assert (starts.void, starts.recreated) == ({}, {})


def test_a_deleted_remote_topic_is_filled_again_from_the_earliest_offset() -> None:
    starts = plan_starts(flow("earliest"), plan("s1", "r2"), Map(), offsets(0))

    assert starts.decisions == {TP: StartFresh(Position(40, 0))}
    assert starts.void == {TP: "remote topic A.t was deleted and created again"}


def test_with_reset_latest_a_deleted_remote_topic_goes_on_where_it_was() -> None:
    starts = plan_starts(flow("latest"), plan("s1", "r2"), Map(), offsets(0))

    assert starts.decisions == {TP: StartFresh(Position(100, 0))}


def test_a_source_topic_created_again_is_read_whole_even_with_reset_latest() -> None:
    starts = plan_starts(flow("latest"), plan("s2", "r2"), Map(), offsets(0))

    assert starts.decisions == {TP: StartFresh(Position(40, 0))}


def test_a_source_topic_created_again_waits_for_an_empty_remote_topic() -> None:
    starts = plan_starts(flow("earliest"), plan("s2", "r1"), Map(), offsets(60))

    assert list(starts.recreated) == [TP]
    assert plan_starts(flow("earliest"), plan("s2", "r2"), Map(), offsets(0)).recreated == {}


def test_a_partition_that_is_gone_is_a_problem() -> None:
    gone = Offsets({TP: 40}, {TP: 120}, {})

    (decision,) = plan_starts(flow("earliest"), plan("s1", "r1"), Map(), gone).decisions.values()

    assert isinstance(decision, Problem)
    assert decision.kind == "target-missing"
