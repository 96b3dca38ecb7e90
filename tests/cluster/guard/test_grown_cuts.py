"""A log that was cut has grown beyond the offset map before the flow asks again.

Offsets do not show that. The epochs of leaders do, and where nobody has noted any, records.
"""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from replication.demo.brokers import Broker
from replication.demo.workload import create_topic
from replication.offsets.map import Exact
from tests.support.cut_log import cut_log, log_bytes
from tests.support.flows import flow_config
from tests.support.local import Clusters
from tests.support.numbered import drain, jump, numbered, numbers, translations
from tests.support.offset_tables import forget_epochs
from tests.support.topics import send_records

pytestmark = [pytest.mark.cluster, pytest.mark.spark]


@pytest.mark.parametrize("state", ["with epochs", "of the version before"])
@pytest.mark.parametrize("source", ["shared", "spark"])
def test_a_source_that_has_grown_beyond_the_map_goes_on_at_the_cut(
    spark: SparkSession,
    clusters: Clusters,
    own_process: Broker,
    tmp_path: Path,
    topic_name: str,
    state: str,
    source: str,
) -> None:
    _, target = clusters
    config = flow_config(
        own_process,
        target,
        topic_name,
        {"replication.guard.source-truncated": "skip", "replication.source": source},
    )
    create_topic(own_process.bootstrap, topic_name, 1)
    send_records(own_process, topic_name, numbered(0, 80))
    size = log_bytes(own_process, topic_name)
    send_records(own_process, topic_name, numbered(80, 100))
    drain(spark, tmp_path, config)
    if state == "of the version before":
        forget_epochs(tmp_path)
    cut_log(own_process, topic_name, size)
    send_records(own_process, topic_name, numbered(200, 260))

    flow = drain(spark, tmp_path, config)
    drain(spark, tmp_path, config)

    assert numbers(target, f"A.{topic_name}") == [*range(100), *range(200, 260)]
    event = jump(flow)
    assert (event.reaction, event.offset_from, event.offset_until) == ("skip", 80, 80)
    assert translations(flow, topic_name, 80, 140) == [Exact(100), Exact(160)]
