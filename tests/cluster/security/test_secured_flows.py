"""Whole flows between clusters that are secured in different ways."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from replication.demo.brokers import Broker, BrokerSettings
from replication.demo.workload import create_topic
from replication.model import Mode
from tests.support.commands import replication
from tests.support.flows import RunningFlow, flow_config
from tests.support.local import Clusters
from tests.support.mirror_files import write_config
from tests.support.secured import Authorities, Secured, secured_broker
from tests.support.topics import assert_equal, copied, difficult, send

pytestmark = [pytest.mark.cluster, pytest.mark.spark]


@pytest.fixture(scope="module")
def second(
    broker_settings: BrokerSettings,
    trusted: Authorities,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Secured]:
    """Another secured cluster."""
    with secured_broker(tmp_path_factory.mktemp("second"), broker_settings, trusted) as broker:
        yield broker


def of_cluster(alias: str, properties: dict[str, str]) -> dict[str, str]:
    """The keys of a cluster in a file, which give every client of it these properties."""
    return {f"{alias}.{key}": value for key, value in properties.items()}


def run(
    spark: SparkSession,
    folder: Path,
    brokers: tuple[Broker, Broker],
    topic: str,
    settings: dict[str, str],
    mode: Mode,
) -> None:
    """Replicates *topic*, stops, and starts again, until all of its records have crossed."""
    config = flow_config(*brokers, topic, settings)
    create_topic(brokers[0].bootstrap, topic, 2)
    for records in (300, 600):
        send(brokers[0], topic, 2, 300, difficult)
        flow = RunningFlow(spark, folder, config, mode)
        flow.until(lambda wanted=records: copied(brokers, topic) >= wanted)  # type: ignore[misc]
        flow.stop()
    assert_equal(brokers, topic)


def test_from_a_cluster_without_security_to_tls_and_scram(
    spark: SparkSession, clusters: Clusters, secured: Secured, tmp_path: Path, topic_name: str
) -> None:
    target = {**secured.client("SCRAM"), **secured.truststore("JKS")}

    run(
        spark,
        tmp_path,
        (clusters[0], secured.broker),
        topic_name,
        of_cluster("B", target),
        "microbatch",
    )


def test_from_kerberos_to_a_client_certificate_in_pem(
    spark: SparkSession, secured: Secured, second: Secured, tmp_path: Path, topic_name: str
) -> None:
    target = {**second.client("MTLS"), **second.truststore("PEM"), **second.keystore("PEM")}
    del target["ssl.truststore.password"], target["ssl.keystore.password"]
    settings = of_cluster("A", secured.client("KRB")) | of_cluster("B", target)

    run(spark, tmp_path, (secured.broker, second.broker), topic_name, settings, "realtime")


def test_from_tokens_to_passwords_in_drains(
    spark: SparkSession, secured: Secured, second: Secured, tmp_path: Path, topic_name: str
) -> None:
    settings = of_cluster("A", secured.client("TOKENS")) | of_cluster("B", second.client("PLAIN"))

    run(spark, tmp_path, (secured.broker, second.broker), topic_name, settings, "drain")

    assert secured.tokens.issued  # a client that an earlier test has left may share its token


def test_a_command_connects_as_a_job_does(
    secured: Secured, second: Secured, tmp_path: Path, topic_name: str
) -> None:
    create_topic(secured.broker.bootstrap, topic_name, 1)
    sides = {"A": secured.client("KRB"), "B": second.client("TOKENS")}
    config = write_config(tmp_path, (secured.broker, second.broker), topic_name, sides)

    plan = replication("plan", config, "--json")

    assert plan.returncode == 0, plan.stderr
    (topic,) = json.loads(plan.stdout)["flows"][0]["topics"]
    assert (topic["topic"], topic["create"]) == (topic_name, True)
