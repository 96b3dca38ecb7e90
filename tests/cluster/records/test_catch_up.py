"""A flow that is to stop once it has caught up, on two real clusters."""

import threading
from itertools import islice
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from replication.demo.topic_log import log_ends
from replication.demo.workload import create_topic, send_transactions, sending
from replication.model import Mode, TopicPartition
from tests.support.flows import RunningFlow, flow_config
from tests.support.local import Clusters
from tests.support.mirror_files import FLOW
from tests.support.stored import stored_runs
from tests.support.topics import copied, fill, plain, send
from tests.support.waiting import in_time

pytestmark = [pytest.mark.cluster, pytest.mark.spark]

PER_SECOND, END_SECONDS = 500, 30
SETTINGS = {
    "replication.limit.records.per.second": str(PER_SECOND),
    "refresh.topics.interval.seconds": "600",
}


@pytest.mark.parametrize("mode", ["realtime", "microbatch"])
def test_a_flow_whose_source_grows_faster_ends_with_what_was_there(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str, mode: Mode
) -> None:
    source, _ = clusters
    growing, ended, born = (f"{topic_name}-{name}" for name in ("growing", "ended", "born"))
    fill(source, growing, 1, 100)
    create_topic(source.bootstrap, ended, 1)  # its last offset is a transaction's marker
    send_transactions(source.bootstrap, ended, islice(plain(1), 10), records_each=5)
    config = flow_config(*clusters, f"{topic_name}.*", SETTINGS)
    flow = RunningFlow(spark, tmp_path, config, mode)
    flow.until(lambda: copied(clusters, growing) == 100 and copied(clusters, ended) == 10)
    send(source, growing, 1, 5 * PER_SECOND)
    has_ended = threading.Event()

    def grow() -> None:
        with sending(source.bootstrap) as sender:
            while not has_ended.wait(0.1):
                sender.send_all(growing, islice(plain(1), PER_SECOND))

    writer = threading.Thread(target=grow)
    writer.start()
    try:
        fill(source, born, 1, 10)  # no refresh has seen it yet
        there = log_ends(source.bootstrap, [growing])[growing]
        flow.context.catch_up.asked = frozenset({"asked"})
        with in_time(END_SECONDS, "the end of the flow"):
            flow.join()
    finally:
        has_ended.set()
        writer.join()

    assert flow.context.catch_up.done == {"asked"}
    assert copied(clusters, growing) >= there
    assert copied(clusters, growing) < log_ends(source.bootstrap, [growing])[growing]
    assert copied(clusters, born) == 10
    runs = stored_runs(flow.tables, FLOW, TopicPartition(growing, 0))
    assert runs[-1].src_until >= there
    marker = stored_runs(flow.tables, FLOW, TopicPartition(ended, 0))[-1].src_until
    assert marker == log_ends(source.bootstrap, [ended])[ended]
