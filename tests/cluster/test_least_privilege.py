"""The mirror with exactly the ACLs that `acls` prints, on two clusters that forbid all others."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from replication.kafka.cluster import Cluster
from replication.kafka.diagnosis import CallError
from replication.kafka.reader import read_records
from replication.model import Committed, NewTopic, TopicPartition
from tests.support.commands import Completed, replication, spark_submit
from tests.support.groups import commit, committed
from tests.support.least_privilege import Strict, grant_printed
from tests.support.mirror_files import write_config
from tests.support.topics import copied, fill

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.local import Clusters

pytestmark = [
    pytest.mark.usefixtures("spark"),  # its JVM has the tests' group client
    pytest.mark.cluster,
    pytest.mark.spark,
    pytest.mark.job,
    pytest.mark.timeout(1200),
]


def secured_config(folder: Path, strict: Strict, topics: str) -> Path:
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
    strict: Strict, tmp_path: Path, topic_name: str
) -> None:
    source, target = strict[0].broker, strict[1].broker
    config = secured_config(tmp_path, strict, f"{topic_name}.*")
    printed = replication("acls", config)
    assert printed.returncode == 0, printed.stderr
    grant_printed(strict, printed.stdout.splitlines())
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
    strict: Strict, topic_name: str
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
