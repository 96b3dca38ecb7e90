"""The mirror with exactly the ACLs that `acls` prints, on two clusters that forbid all others."""

import shlex
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from replication.demo.brokers import Broker, BrokerSettings
from replication.kafka.cluster import Cluster
from replication.kafka.diagnosis import CallError
from replication.kafka.reader import read_records
from replication.model import Committed, NewTopic, TopicPartition
from tests.support.commands import Completed, replication, spark_submit
from tests.support.groups import commit, committed
from tests.support.mirror_files import write_config
from tests.support.secured import Authorities, Secured, secured_broker
from tests.support.topics import copied, fill

if TYPE_CHECKING:
    from tests.support.local import Clusters

pytestmark = [
    pytest.mark.usefixtures("spark"),  # its JVM has the tests' group client
    pytest.mark.cluster,
    pytest.mark.spark,
    pytest.mark.job,
    pytest.mark.timeout(1200),
]

AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",  # the tests themselves, and the broker
}
# Of the tools to Kafka's: the broker's name for the cluster is that of librdkafka.
RESOURCES = {"topic": ResourceType.TOPIC, "group": ResourceType.GROUP}


@pytest.fixture(scope="module")
def strict(
    broker_settings: BrokerSettings,
    trusted: Authorities,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Secured, Secured]]:
    """Two clusters with an authorizer that allows nothing by itself."""
    folder = tmp_path_factory.mktemp("strict")
    with (
        secured_broker(folder / "A", broker_settings, trusted, AUTHORIZER) as first,
        secured_broker(folder / "B", broker_settings, trusted, AUTHORIZER) as second,
    ):
        yield first, second


def grant(broker: Broker, line: str) -> None:
    """Does what a line of kafka-acls does."""
    words = shlex.split(line)
    options: dict[str, list[str]] = {}
    name = ""
    for word in words[1:]:
        if word.startswith("--"):
            options.setdefault(word, [])
            name = word
        else:
            options[name].append(word)
    kind, names = next(
        (kind, options[f"--{kind}"])
        for kind in ("topic", "group", "cluster")
        if f"--{kind}" in options
    )
    pattern = ResourcePatternType[options.get("--resource-pattern-type", ["literal"])[0].upper()]
    bindings = [
        AclBinding(
            RESOURCES.get(kind, ResourceType.BROKER),
            names[0] if names else "kafka-cluster",
            pattern,
            options["--allow-principal"][0],
            "*",
            AclOperation["".join(f"_{c}" if c.isupper() else c for c in it).lstrip("_").upper()],
            AclPermissionType.ALLOW,
        )
        for it in options["--operation"]
    ]
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for created in admin.create_acls(bindings).values():
        created.result(60)


def secured_config(folder: Path, strict: tuple[Secured, Secured], topics: str) -> Path:
    clusters: Clusters = (strict[0].broker, strict[1].broker)
    flow: dict[str, Any] = {
        "enabled": True,
        "topics": [topics],
        "groups": ["billing-.*"],
        "sync.group.offsets.enabled": True,
    }
    more = {"A": strict[0].client("SCRAM"), "B": strict[1].client("SCRAM"), "A->B": flow}
    return write_config(folder, clusters, topics, more)


def drain(config: Path) -> Completed:
    """A drain that must find nothing that it may not do."""
    done = spark_submit(config, "--mode", "drain")
    assert done.returncode == 0, done.stdout + done.stderr
    for text in ("uthoriz", "not_copied", "denied", "rejected", "ERROR"):
        lines = [it for it in (done.stdout + done.stderr).splitlines() if text in it]
        assert not lines, lines
    return done


def test_the_printed_acls_are_enough_for_the_first_start_and_all_later_ones(
    strict: tuple[Secured, Secured], tmp_path: Path, topic_name: str
) -> None:
    source, target = strict[0].broker, strict[1].broker
    config = secured_config(tmp_path, strict, f"{topic_name}.*")
    printed = replication("acls", config)
    assert printed.returncode == 0, printed.stderr
    for line in printed.stdout.splitlines():
        if line.startswith("kafka-acls"):
            grant(
                source
                if source.bootstrap in line or strict[0].servers("SCRAM") in line
                else target,
                line,
            )
    first, later = topic_name, f"{topic_name}-later"
    fill(source, first, 2, 100)
    commit(source, "billing-1", {TopicPartition(first, 0): Committed(20)})

    drain(config)
    fill(source, later, 1, 50)
    commit(source, "billing-1", {TopicPartition(first, 0): Committed(40)})
    drain(config)

    clusters = (source, target)
    assert (copied(clusters, first), copied(clusters, later)) == (100, 50)
    assert committed(target, "billing-1") == {TopicPartition(f"A.{first}", 0): Committed(40)}
    assert yaml.safe_load(config.read_text())["A->B"]["groups"] == ["billing-.*"]


def test_what_is_not_allowed_is_said_at_once_with_the_command_that_allows_it(
    strict: tuple[Secured, Secured], topic_name: str
) -> None:
    properties = strict[1].client("SCRAM")
    source, remote = strict[1].broker, f"A.{topic_name}"
    fill(source, remote, 1, 1)
    calls: dict[str, Callable[[Cluster], object]] = {
        "Describe": lambda cluster: cluster.describe([remote]),
        "Create": lambda cluster: cluster.create_topics([NewTopic(f"{remote}-new", 1, 1)]),
        "DescribeConfigs": lambda cluster: cluster.topic_config([remote]),
    }

    for operation, call in calls.items():
        started = time.monotonic()
        with Cluster("B", properties) as cluster, pytest.raises(CallError) as failure:
            call(cluster)

        assert failure.value.is_refusal
        assert f"--operation {operation} --topic '{remote}" in str(failure.value)
        assert time.monotonic() - started < 10
    with pytest.raises(CallError, match=r"--operation (Describe|Read) --topic") as failure:
        read_records(properties, TopicPartition(remote, 0), 0, 1, "read_uncommitted")
    assert failure.value.is_refusal
