"""A crash between any two commits leaves tables that the next start understands."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from replication.demo.workload import create_topic
from replication.flows.replicate.generations import alone
from replication.flows.replicate.loop import replicate
from replication.model import TopicPartition
from replication.state.tables import Tables
from tests.support.flows import flow_config, flow_context
from tests.support.local import Clusters
from tests.support.mirror_files import FLOW
from tests.support.stored import record_events, stored_runs
from tests.support.topics import assert_equal, send

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

RECORDS = 50
MOST_COMMITS = 20


class CutError(BaseException):
    """The end of the process, as far as the tables are concerned. Nothing may catch it."""


def cut_before(commit: int) -> Callable[[], None]:
    """A check that lets so many commits pass, and no other one."""
    commits = iter(range(commit))

    def check() -> None:
        if next(commits, None) is None:
            raise CutError

    return check


@pytest.mark.guarantee
def test_a_cut_before_any_commit_loses_and_repeats_nothing(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    config = flow_config(*clusters, topic_name, {"replication.mode": "drain"})
    create_topic(clusters[0].bootstrap, topic_name, 1)
    sent = cuts = 0

    for commit in range(MOST_COMMITS):
        send(clusters[0], topic_name, 1, RECORDS)
        sent += RECORDS
        tables = Tables(spark, tmp_path.as_uri())
        tables.check = cut_before(commit)
        try:
            replicate(flow_context(spark, tables, config), alone("drain"), threading.Event())
        except CutError:
            cuts += 1
        else:
            break

    assert 4 <= cuts < MOST_COMMITS, "each run commits a few times"
    assert_equal(clusters, topic_name)
    tables = Tables(spark, tmp_path.as_uri())
    assert record_events(tables) == []
    (run,) = stored_runs(tables, FLOW, TopicPartition(topic_name, 0))
    assert (run.src_from, run.src_until, run.tgt_from, run.is_dense) == (0, sent, 0, True)
