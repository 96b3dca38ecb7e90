"""The mirror with exactly the ACLs that `acls` prints, on two clusters that forbid all others."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from replication.kafka.cluster import Cluster
from replication.kafka.diagnosis import CallError
from replication.kafka.reader import read_records
from replication.model import Committed, NewTopic, TopicPartition
from replication.upkeep.prepare import look
from tests.support.commands import Completed, replication, spark_submit
from tests.support.flows import flow_config
from tests.support.groups import commit, committed
from tests.support.least_privilege import Strict, grant_printed
from tests.support.mirror_files import write_config
from tests.support.topics import copied, fill
from tests.support.waiting import in_time

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


def secured_config(
    folder: Path, strict: Strict, topics: str, groups: str, *, is_synced: bool = True
) -> Path:
    clusters: Clusters = (strict[0].broker, strict[1].broker)
    flow: dict[str, Any] = {
        "enabled": True,
        "topics": [topics],
        "groups": [groups],
        "sync.group.offsets.enabled": is_synced,
    }
    more = {"A": strict[0].client("SCRAM"), "B": strict[1].client("SCRAM"), "A->B": flow}
    return write_config(folder, clusters, topics, more)


def drain(config: Path) -> Completed:
    """A drain that must find nothing that it may not do."""
    done = spark_submit(config, "--mode", "drain")
    assert done.returncode == 0, done.stdout + done.stderr
    for text in ("uthoriz", "not_copied", "denied", "rejected", "ERROR"):
        lines = [line for line in (done.stdout + done.stderr).splitlines() if text in line]
        assert not lines, lines
    return done


@pytest.mark.soak
def test_the_printed_acls_are_enough_for_the_first_start_and_all_later_ones(
    strict: Strict, tmp_path: Path, topic_name: str
) -> None:
    source, target = strict[0].broker, strict[1].broker
    config = secured_config(tmp_path, strict, f"{topic_name}.*", "billing-.*")
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


@pytest.mark.soak
def test_failover_and_failback_with_the_acls_that_are_printed_for_them(
    strict: Strict, tmp_path: Path, topic_name: str
) -> None:
    source, target = strict[0].broker, strict[1].broker
    group = f"{topic_name}-group"
    config = secured_config(tmp_path, strict, topic_name, f"{group}.*", is_synced=False)
    over, back = tmp_path / "over.csv", tmp_path / "back.csv"
    upstream, remote = TopicPartition(topic_name, 0), TopicPartition(f"A.{topic_name}", 0)
    grant_printed(strict, succeed("acls", config).splitlines())
    fill(source, topic_name, 1, 100)
    commit(source, group, {upstream: Committed(20)})
    drain(config)
    apply = "--cluster", "B", "--offsets", str(over), "--execute"

    succeed("export-offsets", config, "--flow", "A->B", "--output", str(over))
    from_checkpoints = succeed("export-offsets", config, "--flow", "A->B", "--from", "checkpoints")
    refused = replication("apply-offsets", config, *apply)
    grant_printed(strict, succeed("acls", config, "--failover").splitlines())
    succeed("apply-offsets", config, *apply)
    after_failover = committed(target, group)
    commit(target, group, {remote: Committed(70)})
    succeed("failback", config, "--flow", "A->B", "--output", str(back))
    succeed("apply-offsets", config, "--cluster", "A", "--offsets", str(back), "--execute")

    assert from_checkpoints == over.read_text()
    assert refused.returncode == 3, refused.stdout
    assert f"--operation Read --group '{group}'" in refused.stderr
    assert after_failover == {remote: Committed(20)}
    assert committed(source, group) == {upstream: Committed(70)}


@pytest.mark.guarantee
def test_a_user_that_may_not_see_its_topics_is_told_what_is_missing(
    strict: Strict, topic_name: str
) -> None:
    fill(strict[0].broker, topic_name, 1, 1)
    properties = {
        f"{alias}.{key}": value
        for alias, side in zip("AB", strict, strict=True)
        for key, value in side.client("SCRAM").items()
    }
    config = flow_config(strict[0].broker, strict[1].broker, topic_name, properties)

    with Cluster("A", config.source.admin) as source, Cluster("B", config.target.admin) as target:
        plan = look(config, source, target)

    assert plan.is_empty
    (warning,) = plan.warnings
    assert "the user may not DESCRIBE them" in warning or "user of A lacks DESCRIBE on" in warning


def succeed(command: str, config: Path, *arguments: str) -> str:
    """What a command prints, which must not fail."""
    done = replication(command, config, *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.guarantee
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
        with (
            in_time(10, f"the refusal of {operation}"),
            Cluster("B", properties) as cluster,
            pytest.raises(CallError) as failure,
        ):
            call(cluster)

        assert failure.value.is_denied
        assert f"--operation {operation} --topic '{remote}" in str(failure.value)
    with pytest.raises(CallError, match=r"--operation (Describe|Read) --topic") as failure:
        read_records(properties, TopicPartition(remote, 0), 0, 1, "read_uncommitted")
    assert failure.value.is_denied
