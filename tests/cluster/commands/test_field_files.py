"""Settings as files of MirrorMaker 2 have them, between two real clusters."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from replication.demo.compare import compare
from tests.support.flows import RunningFlow, flow_config, unique_flow
from tests.support.local import Clusters
from tests.support.topics import fill

pytestmark = [pytest.mark.cluster, pytest.mark.spark]

WEAK = {
    "target.producer.acks": "0",
    "target.producer.retries": "0",
    "target.producer.enable.idempotence": "false",
    "target.producer.max.in.flight.requests.per.connection": "20",
    "target.producer.delivery.timeout.ms": "1000",
    "target.producer.transactional.id": "mine",
    "source.consumer.group.protocol": "consumer",
    "source.consumer.interceptor.classes": "no.such.Class",
}
NO_SEPARATOR = {"replication.policy.separator": ""}
NO_PREFIX = {**NO_SEPARATOR, "source.cluster.alias": "", "target.cluster.alias": ""}
STRIMZI = {
    **NO_SEPARATOR,
    "replication.policy.class": "io.strimzi.kafka.connect.mirror.IdentityReplicationPolicy",
}


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        pytest.param(WEAK, "{alias}.{topic}", id="a weak producer"),
        pytest.param(NO_SEPARATOR, "{alias}{topic}", id="no separator"),
        pytest.param(NO_PREFIX, "{topic}", id="neither alias nor separator"),
        pytest.param(STRIMZI, "{topic}", id="Strimzi's policy"),
    ],
)
def test_settings_of_published_files_run(
    spark: SparkSession,
    clusters: Clusters,
    tmp_path: Path,
    topic_name: str,
    settings: Mapping[str, str],
    name: str,
) -> None:
    source, target = clusters
    flow = unique_flow()
    fill(source, topic_name, 2, 200)

    RunningFlow(
        spark, tmp_path, flow_config(source, target, topic_name, settings, flow), "drain"
    ).join()

    remote = name.format(alias=flow.source, topic=topic_name)
    report = compare(source.bootstrap, target.bootstrap, {topic_name: remote})[topic_name]
    assert report.is_equal, str(report)
