"""Dead letters under bad input: nothing is lost in silence, and no topic holds up the others."""

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from replication.config.state_access import StateAccess
from replication.demo.brokers import Broker
from replication.demo.workload import create_topic
from replication.model import Flow
from replication.offsets.dead_letter import IDENTITY, LetterId
from replication.state.letter_requests import request_letters
from tests.support.flows import RunningFlow, flow_config
from tests.support.letters import LIMIT, contents, keys, letter_settings, numbered, too_large
from tests.support.local import Clusters
from tests.support.mirror_files import FLOW
from tests.support.stored import stored
from tests.support.topic_settings import alter_topic
from tests.support.topics import send_records

pytestmark = [pytest.mark.cluster, pytest.mark.spark]


def identity(broker: Broker, topic: str) -> list[tuple[str, str, int]]:
    """Of which flow, topic and offset the letters in *topic* are."""
    found = [json.loads(one.headers[-1][1] or b"") for one in contents(broker, topic)]
    assert all(one.headers[-1][0] == IDENTITY for one in contents(broker, topic))
    return [(one["flow"], one["topic"], one["offset"]) for one in found]


def test_two_flows_with_one_topic_of_letters_copy_each_their_own_again(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    """Their topics have the same name, and so their letters the same topic, partition, offset."""
    source, target = clusters
    flows = (FLOW, Flow("C", "B"))
    create_topic(source.bootstrap, topic_name, 1)
    for flow in flows:
        create_topic(target.bootstrap, f"{flow.source}.{topic_name}", 1, {LIMIT: "100000"})
    send_records(source, topic_name, [*numbered(0), too_large()])
    settings = letter_settings(topic_name, "topic")
    configs = [flow_config(*clusters, topic_name, settings, flow) for flow in flows]

    for config in configs:
        RunningFlow(spark, tmp_path, config, "drain").join()
    assert identity(target, f"dead-{topic_name}") == [(str(flow), topic_name, 1) for flow in flows]
    (row,) = stored(tmp_path, "dead_letters", "flow = 'C->B'")
    alter_topic(target, f"C.{topic_name}", LIMIT, "1000000")
    one = LetterId(topic_name, row.topic_id, 0, 1)
    request_letters(StateAccess(tmp_path.as_uri()), flows[1], [one])
    for config in configs:
        RunningFlow(spark, tmp_path, config, "drain").join()

    assert keys(target, f"C.{topic_name}") == [b"0", b"large"]
    assert keys(target, f"A.{topic_name}") == [b"0"]
    states = [(row.flow, row.state) for row in stored(tmp_path, "dead_letters")]
    assert states == [("A->B", "waiting"), ("C->B", "waiting"), ("C->B", "copied")]
