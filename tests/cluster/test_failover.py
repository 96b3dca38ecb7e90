"""Groups that move from one cluster to the other and back: what is read twice, what is skipped."""

import json
import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TypeVar

import pytest
from click.testing import CliRunner, Result
from confluent_kafka import Consumer, KafkaException
from confluent_kafka import TopicPartition as KafkaTopicPartition
from pyspark.sql import SparkSession

from replication.cli.main import main
from replication.demo.brokers import Broker
from replication.demo.compacted_topic import create_compacted_topic
from replication.demo.workload import create_topic, plain_records, send_transactions, sending
from replication.flows.checkpoints.rounds import Checkpoints
from replication.model import Committed, TopicPartition
from tests.support.commands import replication
from tests.support.flows import RunningFlow, flow_config
from tests.support.groups import commit, committed
from tests.support.local import Clusters
from tests.support.mirror_files import write_config

pytestmark = [pytest.mark.cluster, pytest.mark.spark]

Place = tuple[int, bytes | None, bytes | None]
PARTITIONS = 3
T = TypeVar("T")


def test_over_and_back_on_dense_topics_each_record_is_read_once(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    source, target = clusters
    group, remote = f"g-{topic_name}", f"A.{topic_name}"
    file = write_config(tmp_path, clusters, topic_name)
    create_topic(source.bootstrap, topic_name, PARTITIONS)
    send(source, topic_name, 3000)
    read = read_as(group, source, topic_name, [100, 1000, 0])
    drain(spark, clusters, tmp_path, topic_name)

    offsets = tmp_path / "over.csv"
    ok(run("export-offsets", file, "--flow", "A->B", "--group", group, "--output", offsets))
    dry = ok(run("apply-offsets", file, "--cluster", "B", "--offsets", offsets))
    before = committed(target, group)
    ok(run("apply-offsets", file, "--cluster", "B", "--offsets", offsets, "--execute"))
    read += read_as(group, target, remote, [400, 0, 33])

    send(source, topic_name, 300)  # the source goes on meanwhile
    back = tmp_path / "back.csv"
    ok(run("failback", file, "--flow", "A->B", "--group", group, "--output", back))
    ok(run("apply-offsets", file, "--cluster", "A", "--offsets", back, "--execute"))
    read += read_as(group, source, topic_name, [2000, 2000, 2000])

    assert "dry run: nothing committed" in dry.stdout
    assert before == {}
    assert offsets.read_text() == (
        f"{group},{remote},0,100\n{group},{remote},1,1000\n"  # nothing was read of the third
    )
    assert Counter(read) == Counter(everything(source, topic_name))
    assert len(read) == 3300


@pytest.mark.parametrize("kind", ["compacted", "transactional"])
def test_over_and_back_on_sparse_topics_no_record_is_skipped(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str, kind: str
) -> None:
    source, target = clusters
    group, remote = f"g-{topic_name}", f"A.{topic_name}"
    file = write_config(
        tmp_path, clusters, topic_name, {"A.consumer.isolation.level": "read_committed"}
    )
    if kind == "compacted":
        create_compacted_topic(source.bootstrap, topic_name, 1, now_ms=now_ms())
    else:
        create_topic(source.bootstrap, topic_name, 1)
        records = islice(plain_records(1, size_bytes=20, now_ms=now_ms()), 600)
        send_transactions(source.bootstrap, topic_name, records, records_each=10, abort_every=4)
    every = everything(source, topic_name)
    read = read_as(group, source, topic_name, [len(every) // 3])
    drain(spark, clusters, tmp_path, topic_name)

    over, back = tmp_path / "over.csv", tmp_path / "back.csv"
    ok(run("export-offsets", file, "--flow", "A->B", "--group", group, "--output", over))
    ok(run("apply-offsets", file, "--cluster", "B", "--offsets", over, "--execute"))
    again = len(every) // 3 - int(over.read_text().rsplit(",", 1)[1])
    (shown,) = re.findall(
        rf"{group}.*?at most (\d+) records? may be read again", table(file, group)
    ) or ["0"]
    read += read_as(group, target, remote, [again + len(every) // 3])
    ok(run("failback", file, "--flow", "A->B", "--group", group, "--output", back))
    ok(run("apply-offsets", file, "--cluster", "A", "--offsets", back, "--execute"))
    read += read_as(group, source, topic_name, [len(every)])

    assert set(read) == set(every)
    assert 0 <= again <= int(shown)


def test_the_table_of_groups(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    source, target = clusters
    group, tp = f"g-{topic_name}", TopicPartition(topic_name, 0)
    file = write_config(tmp_path, clusters, topic_name)
    create_topic(source.bootstrap, topic_name, PARTITIONS)
    send(source, topic_name, 300)
    commit(source, group, {tp: Committed(40)})
    drain(spark, clusters, tmp_path, topic_name)
    send(source, topic_name, 30)
    commit(source, f"{group}-ahead", {tp: Committed(110)})
    commit(target, group, {TopicPartition(f"A.{topic_name}", 0): Committed(7)})

    lines = table(file, group).splitlines()
    printed = replication("groups", file, "--flow", "A->B", "--group", group, "--json")

    cells = [re.split(r" *[│|] *", line.strip(" │|")) for line in lines if group in line]
    ahead = "ahead of replication; at most 10 records may be read again"
    assert cells == [
        [group, f"{topic_name}-0", "40", "70", "40", "exact", "7 empty"],
        [f"{group}-ahead", f"{topic_name}-0", "110", "0", "100", ahead, "- no such group"],
    ]
    assert (printed.returncode, printed.stderr) == (0, "")  # no warning of Java's either
    assert json.loads(printed.stdout) == {
        "flow": "A->B",
        "groups": [
            {
                "group": group,
                "topic": topic_name,
                "remote_topic": f"A.{topic_name}",
                "partition": 0,
                "source": {"committed": 40, "lag": 70},
                "translated": {"offset": 40, "quality": "exact", "reread": 0, "text": "exact"},
                "target": {"committed": 7, "state": "EMPTY"},
            }
        ],
    }


def test_offsets_and_moves_as_json(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    source, target = clusters
    group, remote = f"g-{topic_name}", f"A.{topic_name}"
    file, offsets = write_config(tmp_path, clusters, topic_name), tmp_path / "offsets.csv"
    create_topic(source.bootstrap, topic_name, PARTITIONS)
    send(source, topic_name, 30)
    commit(source, group, {TopicPartition(topic_name, 1): Committed(4)})
    drain(spark, clusters, tmp_path, topic_name)
    commit(target, group, {TopicPartition(remote, 1): Committed(7)})
    flow = ("--flow", "A->B", "--group", group)

    over = json.loads(ok(run("export-offsets", file, *flow, "--json")).stdout)
    back = json.loads(ok(run("failback", file, *flow, "--json")).stdout)
    offsets.write_text(f"{group},{remote},1,4\n")
    apply = ok(run("apply-offsets", file, "--cluster", "B", "--offsets", offsets, "--json"))

    on_target = {"group": group, "topic": remote, "partition": 1, "offset": 4}
    on_source = {"group": group, "topic": topic_name, "partition": 1, "offset": 7}
    assert over == {"cluster": "B", "offsets": [on_target], "problems": []}
    assert back == {"cluster": "A", "offsets": [on_source], "problems": []}
    assert json.loads(apply.stdout) == {
        "cluster": "B",
        "execute": False,
        "moves": [{**on_target, "current": 7, "state": "EMPTY", "blocked": False}],
    }


def test_nothing_is_committed_while_one_of_the_groups_has_members(
    clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    file, offsets = write_config(tmp_path, clusters, topic_name), tmp_path / "offsets.csv"
    create_topic(clusters[1].bootstrap, topic_name, 1)
    idle, busy = f"{topic_name}-a-idle", f"{topic_name}-busy"
    offsets.write_text(f"{idle},{topic_name},0,0\n{busy},{topic_name},0,0\n")
    settings = {
        "bootstrap.servers": clusters[1].bootstrap,
        "group.id": busy,
        "client.id": "busy-bee",
    }
    with closing(Consumer(settings)) as consumer:
        consumer.subscribe([topic_name])
        while not consumer.assignment():
            consumer.poll(0.1)
        refused = run("apply-offsets", file, "--cluster", "B", "--offsets", offsets, "--execute")

    assert refused.exit_code == 2
    assert f"{busy}: busy-bee at" in refused.stderr
    assert committed(clusters[1], idle) == {}


def test_offsets_that_the_cluster_does_not_have_are_not_committed(
    clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    file, offsets = write_config(tmp_path, clusters, topic_name), tmp_path / "offsets.csv"
    create_topic(clusters[1].bootstrap, topic_name, 1)
    group = f"g-{topic_name}"
    lines = (f"{topic_name},0,0", f"{topic_name},1,0", f"{topic_name}-none,0,0")
    offsets.write_text("\ufeff" + "".join(f"{group},{line}\n" for line in lines))
    beyond = tmp_path / "beyond.csv"
    beyond.write_text(f"{group},{topic_name},0,1\n")

    refused = run("apply-offsets", file, "--cluster", "B", "--offsets", offsets, "--execute")
    also = run("apply-offsets", file, "--cluster", "B", "--offsets", beyond, "--execute")

    assert (refused.exit_code, also.exit_code) == (2, 2)
    assert refused.stderr.splitlines()[1:] == [
        f"  - {topic_name}-none: no such topic on B",
        f"  - group {group}, {topic_name}-1: the topic has 1 partitions",
    ]
    assert f"group {group}, {topic_name}-0: offset 1 is beyond the log's end, 0" in also.stderr
    assert committed(clusters[1], group) == {}


def test_a_wrong_file_or_cluster_is_refused_with_every_problem(
    clusters: Clusters, tmp_path: Path
) -> None:
    file, offsets = write_config(tmp_path, clusters, "x"), tmp_path / "offsets.csv"
    offsets.write_text("g,t,0\ng,t,zero,1\n")

    wrong = run("apply-offsets", file, "--cluster", "B", "--offsets", offsets)
    nobody = run("apply-offsets", file, "--cluster", "C", "--offsets", write_valid(tmp_path))
    missing = run("apply-offsets", file, "--cluster", "B", "--offsets", tmp_path / "none.csv")
    (tmp_path / "latin.csv").write_bytes(b"gr\xfcn,t,0,1\n")
    latin = run("apply-offsets", file, "--cluster", "B", "--offsets", tmp_path / "latin.csv")

    assert latin.exit_code == 2
    assert "byte 2: not UTF-8" in latin.stderr
    assert (wrong.exit_code, nobody.exit_code, missing.exit_code) == (2, 2, 2)
    assert "line 1" in wrong.stderr
    assert "line 2" in wrong.stderr
    assert "--cluster 'C': unknown cluster; enabled flows use A, B" in nobody.stderr
    assert "cannot be read: No such file" in missing.stderr


def test_without_the_source_the_checkpoints_are_exported(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    group = f"g-{topic_name}"
    create_topic(clusters[0].bootstrap, topic_name, PARTITIONS)
    send(clusters[0], topic_name, 300)
    commit(clusters[0], group, {TopicPartition(topic_name, 1): Committed(40)})
    flow = drain(spark, clusters, tmp_path, topic_name)
    Checkpoints(flow.context).round()
    nowhere: dict[str, object] = {"A": {"bootstrap.servers": "127.0.0.1:9"}}
    file = write_config(tmp_path, clusters, topic_name, nowhere)

    found = ok(
        run("export-offsets", file, "--flow", "A->B", "--group", group, "--from", "checkpoints")
    )

    assert found.stdout == f"{group},A.{topic_name},1,40\n"


def write_valid(folder: Path) -> Path:
    file = folder / "valid.csv"
    file.write_text("g,t,0,1\n")
    return file


def table(file: Path, group: str) -> str:
    return ok(run("groups", file, "--flow", "A->B", "--group", f"{group}.*")).stdout


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(it) for it in arguments])


def ok(result: Result) -> Result:
    assert result.exit_code == 0, (result.output, result.exception)
    return result


def drain(spark: SparkSession, clusters: Clusters, folder: Path, topic: str) -> RunningFlow:
    flow = RunningFlow(spark, folder / "state", flow_config(*clusters, topic), "drain")
    flow.join()
    return flow


def send(broker: Broker, topic: str, count: int) -> None:
    with sending(broker.bootstrap) as sender:
        records = plain_records(PARTITIONS, size_bytes=20, now_ms=now_ms())
        sender.send_all(topic, islice(records, count))


def read_as(group: str, broker: Broker, topic: str, counts: Sequence[int]) -> list[Place]:
    """Reads as *group* from its committed offsets, at most *counts* per partition, and commits."""
    found: list[Place] = []
    with closing(_consumer(broker, group)) as consumer:
        for partition, count in enumerate(counts):
            tp = KafkaTopicPartition(topic, partition)
            (at,) = _until_coordinated(partial(consumer.committed, [tp], timeout=30))
            consumer.assign([KafkaTopicPartition(topic, partition, max(0, at.offset))])
            read = _read(consumer, count)
            found += [place for _, place in read]
            if read:
                after = KafkaTopicPartition(topic, partition, read[-1][0] + 1)
                consumer.commit(offsets=[after], asynchronous=False)
    return found


def _until_coordinated(ask: Callable[[], T]) -> T:
    """The answer of *ask*, once the group has a coordinator: a fresh cluster makes its topic."""
    deadline = time.monotonic() + 30
    while True:
        try:
            return ask()
        except KafkaException:
            assert time.monotonic() < deadline
        time.sleep(0.1)


def everything(broker: Broker, topic: str) -> list[Place]:
    found: list[Place] = []
    with closing(_consumer(broker, "nobody")) as consumer:
        for partition in consumer.list_topics(topic, timeout=30).topics[topic].partitions:
            consumer.assign([KafkaTopicPartition(topic, partition, 0)])
            found += [place for _, place in _read(consumer, 1 << 40)]
    return found


def _read(consumer: Consumer, count: int) -> list[tuple[int, Place]]:
    """Offsets and contents of up to *count* records, ended by the end of the partition."""
    found: list[tuple[int, Place]] = []
    while len(found) < count:
        message = consumer.poll(30)
        assert message is not None, "no answer"
        if message.error():
            break  # the end
        content = (message.partition() or 0, message.key(), message.value())
        found.append((message.offset() or 0, content))
    return found


def _consumer(broker: Broker, group: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
        }
    )


def now_ms() -> int:
    return time.time_ns() // 1_000_000
