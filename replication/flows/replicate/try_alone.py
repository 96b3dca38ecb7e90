"""Copies single records that the target may have rejected before, and nothing that follows them.

Behind a rejected record others are on their way already. Each try with all of them adds copies of
those to the target, so a start tries the next record of such a partition alone.
"""

from collections.abc import Collection, Mapping
from contextlib import suppress

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException

from replication.flows.context import FlowContext
from replication.flows.replicate.crossing import crossing, sink
from replication.flows.replicate.failures import explain
from replication.flows.replicate.reports import Reports
from replication.kafka.rejections import Rejections
from replication.log import Log
from replication.model import Position, TopicPartition
from replication.offsets.pending import PendingRuns
from replication.offsets.runs import ProgressGapError
from replication.spark.acknowledged import generation_tag
from replication.spark.counting import read_windows
from replication.spark.session import task_slots
from replication.topics.topic_plan import TopicPlan

log = Log(__name__)


def try_alone(
    context: FlowContext,
    plan: TopicPlan,
    positions: Mapping[TopicPartition, Position],
    partitions: Collection[TopicPartition],
    *,
    number: int,
) -> bool:
    """Copies the next record of each of *partitions*, where there is one; false if there is none.

    Args:
        context: The flow.
        plan: Its topics; no query replicates the partitions.
        positions: Where they resume. Afterwards they have to be found again.
        partitions: Those of the plan that are tried.
        number: A generation's, which no query has.

    Raises:
        QueryError: The target rejects a record, or Spark cannot read it.
        ClusterError: A cluster does not answer.
    """
    config, spark = context.config, context.spark
    ends = context.source.log_ends(partitions, config.isolation)
    starts = {tp: positions[tp].upstream for tp in partitions}
    windows = {tp: (at, at + 1) for tp, at in starts.items() if at < ends.get(tp, 0)}
    if not windows:
        return False
    log.info("trying_single_records", flow=config.flow, partitions=len(windows))
    limits = Rejections().call(context.target.max_message_bytes, plan.topics.values())
    options = sink(config, spark, limits, min(len(windows), task_slots(spark)))
    reports = Reports(context, plan, number)
    try:
        records = crossing(config, plan, read_windows(spark, config.source.consumer, windows))
        with generation_tag(spark, config.flow, number, limits=limits):
            records.write.format("kafka").options(**options).save()
    except (PySparkException, Py4JJavaError) as error:
        with suppress(Py4JError, ProgressGapError):  # they only say which record it was
            reports.finish()
            reports.add_to(PendingRuns(positions))
        raise explain(config.flow, error, reports.rejected) from error
    finally:
        reports.close()
    return True
