"""Where partitions start: log ends, anchors and topic ids in, decisions out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pytest

from replication.config.parse import parse
from replication.config.tree import FlowConfig
from replication.model import Chain, Position, TopicPartition
from replication.offsets.guard import (
    Accepted,
    Decision,
    FirstStart,
    Jump,
    Missing,
    Refusal,
    Resume,
    StartFresh,
)
from replication.offsets.map import Exact, OffsetMap, TopicMap
from replication.offsets.runs import OffsetRun, Stamp, Stamps, anchor
from replication.positions.survey import NOTHING_ACCEPTED, LogSpans, rule_all, survey
from replication.state.table_reader import Anchor
from replication.topics.topic_plan import TopicPlan

TP = TopicPartition("t", 0)
REMOTE_IDS = {"A.t": "r1"}


@dataclass(frozen=True, slots=True)
class Map:
    """The offset map of a partition of which offsets 40 to 99 were copied, 60 records."""

    anchors: dict[TopicPartition, Anchor] = field(
        default_factory=lambda: {TP: Anchor(Position(100, 60), "s1")}
    )
    remote_ids: dict[str, str] = field(default_factory=lambda: REMOTE_IDS)
    first: FirstStart | None = None
    transforms: dict[str, Chain] = field(default_factory=dict)
    stamps: dict[TopicPartition, Stamps] = field(default_factory=dict)

    def runs(self, _tp: TopicPartition) -> Sequence[OffsetRun]:
        return [OffsetRun(40, 100, 0, 60)]

    def maps(self, _least: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, TopicMap]:
        return {TP: TopicMap("s1", OffsetMap(self.runs(TP)))}


def flow(reset: str, more: Mapping[str, str] | None = None) -> FlowConfig:
    """The flow A->B that starts new partitions at *reset*."""
    servers = {"clusters": "A, B", "A.bootstrap.servers": "a:1", "B.bootstrap.servers": "b:1"}
    settings = {**servers, "A->B.enabled": "true", "consumer.auto.offset.reset": reset}
    settings |= more or {}
    return parse("test", settings, default_state_dir="file:///state").flows[0]


def plan(source_id: str, remote_id: str) -> TopicPlan:
    """A plan for the topic, whose ids are these now."""
    return TopicPlan({"t": "A.t"}, (), {}, (TP,), {"t": source_id}, {"A.t": remote_id})


def offsets(target_end: int) -> LogSpans:
    """A source whose retention has passed offset 40, and so many records on the target."""
    return LogSpans({TP: 40}, {TP: 120}, {TP: target_end})


def ruled(
    config: FlowConfig,
    planned: TopicPlan,
    spans: LogSpans,
    accepted: Mapping[TopicPartition, Accepted] = NOTHING_ACCEPTED,
) -> Decision | Jump:
    """What the policy, or an operator, makes of the partition's start."""
    surveyed = survey(config, planned, Map(), spans)
    return rule_all(config, planned, surveyed.decisions, accepted)[TP]


def test_the_map_decides_for_the_topics_that_it_is_of() -> None:
    starts = survey(flow("earliest"), plan("s1", "r1"), Map(), offsets(60))

    assert starts.decisions == {TP: Resume(Position(100, 60))}
    assert starts.void == {}


def test_a_deleted_remote_topic_is_filled_again_from_the_earliest_offset() -> None:
    starts = survey(flow("earliest"), plan("s1", "r2"), Map(), offsets(0))

    assert starts.decisions == {TP: StartFresh(Position(40, 0))}
    assert starts.void == {TP: "remote topic A.t was deleted and created again"}


def test_records_in_a_new_remote_topic_say_nothing_of_those_before_them() -> None:
    starts = survey(flow("earliest"), plan("s1", "r2"), Map(), offsets(7))

    assert starts.decisions == {TP: StartFresh(Position(40, 7))}


def test_with_reset_latest_a_deleted_remote_topic_goes_on_where_it_was() -> None:
    starts = survey(flow("latest"), plan("s1", "r2"), Map(), offsets(0))

    assert starts.decisions == {TP: StartFresh(Position(100, 0))}


def test_a_source_topic_created_again_is_read_whole_even_with_reset_latest() -> None:
    starts = survey(flow("latest"), plan("s2", "r2"), Map(), offsets(0))

    assert starts.decisions == {TP: StartFresh(Position(40, 0))}


def test_a_source_topic_created_again_waits_for_an_empty_remote_topic() -> None:
    starts = survey(flow("earliest"), plan("s2", "r1"), Map(), offsets(60))

    (refusal,) = starts.decisions.values()
    assert isinstance(refusal, Refusal)
    assert refusal.cause == "source-recreated"
    empty = survey(flow("earliest"), plan("s2", "r2"), Map(), offsets(0))
    assert empty.decisions == {TP: StartFresh(Position(40, 0))}


def test_a_partition_that_is_gone_is_missing() -> None:
    gone = LogSpans({TP: 40}, {TP: 120}, {})

    (decision,) = survey(flow("earliest"), plan("s1", "r1"), Map(), gone).decisions.values()

    assert isinstance(decision, Missing)
    assert decision.side == "target"


# By cause: topic ids and offsets, then for skip and restart the position, the source offsets that
# are lost, those that are repeated, and what the map states afterwards.
EXPIRED = LogSpans({TP: 110}, {TP: 120}, {TP: 60})
SOURCE_CUT = LogSpans({TP: 50}, {TP: 80}, {TP: 60})
TARGET_CUT = LogSpans({TP: 50}, {TP: 120}, {TP: 45})
AGAIN = LogSpans({TP: 3}, {TP: 9}, {TP: 60})


@pytest.mark.parametrize(
    ("cause", "source_id", "found", "policy", "position", "lost", "repeated", "runs"),
    [
        pytest.param(
            "records-expired", "s1", EXPIRED, "skip", Position(110, 60), (100, 110), None,
            [OffsetRun(100, 110, 60, 0)], id="expired, skip",
        ),
        pytest.param(
            "records-expired", "s1", EXPIRED, "restart", Position(110, 60), (100, 110), None,
            [OffsetRun(100, 110, 60, 0)], id="expired, restart",
        ),
        pytest.param(
            "source-truncated", "s1", SOURCE_CUT, "skip", Position(80, 60), (50, 80), None,
            [anchor(Position(80, 60))], id="source cut, skip",
        ),
        pytest.param(
            "source-truncated", "s1", SOURCE_CUT, "restart", Position(50, 60), None, (50, 80),
            [anchor(Position(50, 60))], id="source cut, restart",
        ),
        pytest.param(
            "target-truncated", "s1", TARGET_CUT, "skip", Position(100, 45), (85, 100), None,
            [OffsetRun(85, 100, 45, 0)], id="target cut, skip",
        ),
        pytest.param(
            "target-truncated", "s1", TARGET_CUT, "restart", Position(85, 45), None, None,
            [OffsetRun(85, 85, 45, 0)], id="target cut, restart",
        ),
        pytest.param(
            "source-recreated", "s2", AGAIN, "skip", Position(3, 60), None, None,
            [anchor(Position(3, 60))], id="created again, skip",
        ),
        pytest.param(
            "source-recreated", "s2", AGAIN, "restart", Position(3, 60), None, None,
            [anchor(Position(3, 60))], id="created again, restart",
        ),
    ],
)  # fmt: skip
def test_a_policy_decides_where_a_refused_partition_goes_on(
    cause: str,
    source_id: str,
    found: LogSpans,
    policy: str,
    position: Position,
    lost: tuple[int, int] | None,
    repeated: tuple[int, int] | None,
    runs: list[OffsetRun],
) -> None:
    config = flow("latest", {f"replication.guard.{cause}": policy})

    refusal = ruled(flow("latest"), plan(source_id, "r1"), found)
    jump = ruled(config, plan(source_id, "r1"), found)

    assert isinstance(refusal, Refusal)
    assert refusal.cause == cause
    assert isinstance(jump, Jump)
    assert (jump.position, jump.lost, jump.repeated) == (position, lost, repeated)
    assert jump.decided_by == policy
    assert jump.new_runs() == runs


def test_a_map_that_is_cut_answers_for_what_the_target_still_has() -> None:
    config = flow("earliest", {"replication.guard.target-truncated": "skip"})

    jump = ruled(config, plan("s1", "r1"), TARGET_CUT)

    assert isinstance(jump, Jump)
    assert jump.refusal.remaining_runs == (OffsetRun(40, 85, 0, 45),)
    after = OffsetMap([*jump.refusal.remaining_runs, *jump.new_runs(), OffsetRun(100, 110, 45, 10)])
    answers = [after.translate(offset) for offset in (40, 84, 85, 99, 100, 110)]
    assert answers == [Exact(0), Exact(44), Exact(45), Exact(45), Exact(45), Exact(55)]


@pytest.mark.parametrize("topics", ["other", "t.", ""])
def test_a_policy_is_for_the_topics_that_it_names(topics: str) -> None:
    named = {"replication.guard.records-expired": "skip", "replication.guard.topics": topics}

    assert isinstance(ruled(flow("earliest", named), plan("s1", "r1"), EXPIRED), Refusal)


@pytest.mark.parametrize(
    ("start", "position", "lost", "repeated"),
    [
        pytest.param(115, 115, (100, 115), None, id="an offset"),
        pytest.param("earliest", 110, (100, 110), None, id="the earliest"),
        pytest.param("latest", 120, (100, 120), None, id="the log end"),
    ],
)
def test_what_an_operator_accepts_comes_before_the_policy(
    start: int, position: int, lost: tuple[int, int], repeated: None
) -> None:
    config = flow("earliest", {"replication.guard.records-expired": "stop"})
    accepted = {TP: Accepted(start, "s1")}

    jump = ruled(config, plan("s1", "r1"), EXPIRED, accepted)

    assert isinstance(jump, Jump)
    assert (jump.position, jump.decided_by) == (Position(position, 60), "accept")
    assert (jump.lost, jump.repeated) == (lost, repeated)


@pytest.mark.parametrize(
    ("accepted", "text"),
    [
        pytest.param(Accepted(109, "s1"), "offset 109 was accepted, but the source has offsets 110 "
                     "to 120", id="an offset that is gone"),
        pytest.param(Accepted(121, "s1"), "offset 121 was accepted", id="an offset to come"),
        pytest.param(Accepted(115, "s0"), "may not have been replicated", id="of a deleted topic"),
    ],
)  # fmt: skip
def test_an_acceptance_that_no_longer_fits_is_refused(accepted: Accepted, text: str) -> None:
    refusal = ruled(flow("earliest"), plan("s1", "r1"), EXPIRED, {TP: accepted})

    assert isinstance(refusal, Refusal)
    assert text in refusal.text


def test_an_acceptance_changes_nothing_where_the_flow_goes_on_by_itself() -> None:
    accepted = {TP: Accepted("latest", "s1")}

    start = ruled(flow("earliest"), plan("s1", "r1"), offsets(60), accepted)

    assert start == Resume(Position(100, 60))


OLD = FirstStart(frozenset({"t", "excluded"}), {TP: 90}, {"t": "s1"})


@pytest.mark.parametrize(
    ("first", "source_id", "start"),
    [
        pytest.param(None, "s1", 120, id="the first start"),
        pytest.param(OLD, "s1", 90, id="there at the first start, and set aside until now"),
        pytest.param(OLD, "s2", 40, id="created again since"),
        pytest.param(FirstStart(frozenset({"t"})), "s1", 120, id="excluded until now"),
        pytest.param(FirstStart(), "s1", 40, id="born later"),
        pytest.param(FirstStart(frozenset({"t"}), {}, {"t": "s1"}), "s1", 40, id="a new partition"),
    ],
)
def test_latest_is_for_what_there_was_when_the_flow_first_started(
    first: FirstStart | None, source_id: str, start: int
) -> None:
    stored = Map(anchors={}, first=first)

    starts = survey(flow("latest"), plan(source_id, "r1"), stored, offsets(0))

    assert starts.decisions == {TP: StartFresh(Position(start, 0))}
    assert starts.later == ({TP} if start == 40 else set())


@pytest.mark.parametrize(
    ("sure_until", "target_end", "start", "effect"),
    [
        pytest.param(100, 60, 80, None, id="all was copied before the cut"),
        pytest.param(90, 60, 80, "90 to 99 may be", id="a reader went on behind the cut"),
        pytest.param(90, 62, 80, "90 to 119 may be", id="and the map has not all of it"),
        pytest.param(90, 60, 70, "70 to 99 may be", id="an operator goes further back"),
        pytest.param(90, 60, 110, None, id="an operator goes on behind all of it"),
    ],
)
def test_a_jump_over_a_cut_tells_what_a_reader_has_copied_from_behind_it(
    sure_until: int, target_end: int, start: int, effect: str | None
) -> None:
    spans = replace(offsets(target_end), source_cuts={TP: 80})
    stored = Map(stamps={TP: Stamps(Stamp(sure_until, 3))})
    decisions = survey(flow("earliest"), plan("s1", "r1"), stored, spans).decisions

    jump = rule_all(flow("earliest"), plan("s1", "r1"), decisions, {TP: Accepted(start, "s1")})[TP]

    assert isinstance(jump, Jump)
    assert (f"source offsets {effect} copied again" in jump.effect) == (effect is not None)
    assert ("copied again" in jump.effect) == (effect is not None)
