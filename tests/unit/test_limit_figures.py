"""What is shown of limits, and that records that wait for one have not stalled."""

import pytest

from replication.cli.status import limits_line
from replication.config.limits import Limit
from replication.flows.flow_metrics import FlowMetrics
from replication.flows.observe.flow_observer import STALLED_SECONDS, Partitions, of_limits
from replication.model import Position, TopicPartition
from replication.spark.acknowledged import LimitUse
from replication.topics.topic_plan import TopicPlan
from tests.support.observed import observed

TP = TopicPartition("t", 0)
LIMITS = (Limit(None, 20_000_000, 5_000), Limit("clicks.*", None, 500))
USES = (LimitUse(19_800_000.0, 4_100.0, is_waiting=True), LimitUse(700.0, 12.25, is_waiting=False))


def test_the_status_says_the_limits_and_what_is_used_of_them() -> None:
    shown = observed(labelled=of_limits(LIMITS, USES))

    assert limits_line(shown) == (
        "limited to 20 MB/s, using 19.8 MB/s and 5000 records/s, using 4100 records/s "
        "(records wait); clicks.* to 500 records/s, using 12.25 records/s"
    )
    assert limits_line(observed(labelled={})) == ""


def test_a_limit_that_executors_have_not_heard_of_yet_has_no_figures() -> None:
    assert of_limits(LIMITS, USES[:1]).keys() == of_limits(LIMITS[:1], USES).keys()
    assert of_limits((), USES) == {}


@pytest.mark.parametrize("is_waiting", [True, False])
def test_a_partition_whose_flow_waits_for_a_limit_has_not_stalled(*, is_waiting: bool) -> None:
    metrics, partitions = FlowMetrics(), Partitions()
    plan = TopicPlan({"t": "A.t"}, (), {}, (TP,), {"t": "1"}, {})
    metrics.begin(1, "microbatch", plan, {TP: Position(0, 0)})
    metrics.want(plan, ())
    board = metrics.look()
    partitions.known(board)
    partitions.saw(100.0, {TP: 5})
    partitions.look(101.0, board, ())
    later = 102.0 + STALLED_SECONDS

    one, *_ = partitions.look(later, board, (), is_waiting=is_waiting)
    assert one.state == ("lagging" if is_waiting else "stalled")
    one, *_ = partitions.look(later + STALLED_SECONDS, board, ())
    assert one.state == "stalled", "from the last wait on, it counts again"
