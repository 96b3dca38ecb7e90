"""A command prints its answer to stdout, and nothing else there."""

import json
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from socket import create_server

import pytest
from pyspark.sql import SparkSession

from replication.config.file import load_config
from replication.control.sizing import size_start
from replication.demo.brokers import HOST, free_port
from replication.demo.workload import create_topic, plain_records, sending
from replication.model import TopicPartition
from replication.offsets.runs import OffsetRun
from replication.spark.mode import LOCAL_SLOTS_PER_PARTITION, LOCAL_SPARE_SLOTS
from tests.support.cli import run
from tests.support.commands import replication
from tests.support.flows import RunningFlow, flow_config
from tests.support.local import Clusters
from tests.support.mirror_files import FLOW, write_config
from tests.support.offset_tables import write_offset_map

pytestmark = pytest.mark.cluster


def test_a_command_prints_its_answer_and_nothing_else(
    clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    create_topic(clusters[0].bootstrap, topic_name, 1)

    done = replication("plan", write_config(tmp_path, clusters, topic_name), "--json")

    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["flows"][0]["topics"][0]["topic"] == topic_name


def test_slots_suffice_for_every_partition_and_the_bookkeeping(
    clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    create_topic(clusters[0].bootstrap, topic_name, 3)

    file = write_config(tmp_path, clusters, topic_name, {"replication.source": "spark"})
    assert run("slots", file).output == "17\n"
    assert run("slots", file, "--mode", "drain").output == "11\n"
    small = run("slots", file, "--", "--driver-memory", "8m")
    assert small.stdout == "11\n", "a heap that is too small for Real-Time Mode"
    assert small.stderr == (
        "warning: auto takes micro-batches: on one machine 3 partitions in Real-Time Mode take a "
        "driver's heap of 12 MB, this one has 8 MB; DRIVER_MEMORY=12m gives it\n"
    )


def test_a_start_with_the_shared_source_asks_no_cluster_for_its_slots(
    clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    with ExitStack() as ends:
        silent = [ends.enter_context(create_server((HOST, 0))) for _ in clusters]
        addresses = {
            alias: {"bootstrap.servers": f"{HOST}:{server.getsockname()[1]}"}
            for alias, server in zip("AB", silent, strict=True)
        }
        more = {**addresses, "replication.source": "shared", "tasks.max": 3}
        started = run("slots", write_config(tmp_path, clusters, topic_name, more), "--start")

        slots = LOCAL_SLOTS_PER_PARTITION * 3 + LOCAL_SPARE_SLOTS
        assert (started.exit_code, started.stdout) == (0, f"{slots}\n")
        assert "A->B" not in started.stderr
        for server in silent:
            server.setblocking(False)
            with pytest.raises(BlockingIOError):
                server.accept()  # whoever has connected would wait here


def test_a_silent_cluster_is_said_and_does_not_keep_a_start_from_its_slots(
    clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    silent = {"B": {"bootstrap.servers": f"{HOST}:{free_port()}"}, "replication.source": "spark"}
    config = load_config(str(write_config(tmp_path, clusters, topic_name, silent)))

    needed = size_start(config, config.flows, heap_mb=1000)

    assert needed.slots == LOCAL_SPARE_SLOTS
    assert needed.partitions == {"auto": 0}
    assert list(needed.unanswered) == [config.flows[0].flow]
    assert needed.warnings()[0].startswith("slots of A->B as in its last generation: ")
    assert "connection refused" in needed.warnings()[0]


@pytest.mark.spark
def test_translate_answers_from_the_table_both_ways(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    source, target = clusters
    create_topic(source.bootstrap, topic_name, 1)
    create_topic(target.bootstrap, f"A.{topic_name}", 1)
    with sending(source.bootstrap) as sender:
        sender.send_all(topic_name, islice(plain_records(1, size_bytes=9, now_ms=0), 100))
    latest = flow_config(source, target, topic_name, {"auto.offset.reset": "latest"})
    RunningFlow(spark, tmp_path / "state", latest, "drain").join()
    with sending(source.bootstrap) as sender:
        sender.send_all(topic_name, islice(plain_records(1, size_bytes=9, now_ms=0), 50))
    RunningFlow(spark, tmp_path / "state", latest, "drain").join()
    file = write_config(tmp_path, clusters, topic_name)

    partition = ("--flow", "A->B", "--topic", topic_name, "--partition", "0")
    forth = replication("translate", file, *partition, "--offset", "130")
    back = replication("translate", file, *partition, "--offset", "30", "--back")

    assert (forth.stdout, back.stdout) == ("30 exact\n", "130 exact\n")


@pytest.mark.spark
def test_an_answer_by_way_of_spark_comes_without_a_warning(
    clusters: Clusters, tmp_path: Path
) -> None:
    state = tmp_path / "100%"  # a path that only Spark can read
    write_offset_map(state, FLOW, {TopicPartition("orders", 0): [OffsetRun(50, 150, 0, 100)]})
    file = write_config(tmp_path, clusters, "orders", {"state.dir": state.as_uri()})

    position = ("--topic", "orders", "--partition", "0", "--offset", "130")
    done = replication("translate", file, "--flow", "A->B", *position)

    assert (done.returncode, done.stdout, done.stderr) == (0, "80 exact\n", "")
