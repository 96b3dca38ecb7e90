"""``plan --sample`` and ``transform`` show what transforms make of real records."""

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from replication.demo.workload import ProducedRecord, create_topic
from replication.model import TopicPartition, Transform
from replication.spark.transform_check import sample
from tests.support.cli import run
from tests.support.flows import flow_config
from tests.support.local import Clusters
from tests.support.mirror_files import write_config
from tests.support.topics import now_ms, send_records

pytestmark = [pytest.mark.cluster, pytest.mark.spark]

VALUES = (
    *(b'{"region":"eu","email":"a@b.c"}', b'{"region":"us","email":"d@e.f"}', b"not JSON"),
    *(None, b'{"region":"eu"}', b"\xff\x00"),
)
REGION = "get_json_object(cast(value AS string), '$.region') = 'eu'"
MASK = (
    'cast(regexp_replace(cast(value AS string), \'"email":"[^"]*"\', \'"email":"***"\') AS binary)'
)


def fill_with(clusters: Clusters, topic: str, values: tuple[bytes | None, ...]) -> None:
    """Sends *values* to a topic of one partition, each with a key and a header."""
    create_topic(clusters[0].bootstrap, topic, 1)
    records = (
        ProducedRecord(
            partition=0,
            key=f"k{number}".encode(),
            value=value,
            headers=(("trace", b"t"),),
            timestamp_ms=now_ms(),
        )
        for number, value in enumerate(values)
    )
    send_records(clusters[0], topic, records)


@pytest.mark.usefixtures("spark")
def test_a_plan_shows_what_the_transforms_of_the_file_make_of_the_last_records(
    clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    fill_with(clusters, topic_name, VALUES)
    fill_with(clusters, f"{topic_name}-plain", VALUES[:1])
    keys = {
        "": ["eu-only", "mask"],
        ".eu-only.topics": [topic_name],
        ".eu-only.filter": REGION,
        ".mask.topics": [topic_name],
        ".mask.value": MASK,
        ".mask.headers.remove": ["trace"],
    }
    transforms = {f"replication.transforms{key}": value for key, value in keys.items()}
    file = write_config(tmp_path, clusters, f"{topic_name}.*", transforms)

    shown = run("plan", file, "--sample", 5)
    answer = run("plan", file, "--sample", 5, "--json")

    (found,) = json.loads(answer.stdout)["flows"][0]["sample"]["topics"]
    assert found["topic"] == topic_name
    assert found["transforms"] == ["eu-only", "mask"]
    assert [(one["offset"], one["outcome"]) for one in found["records"]] == [
        *((1, "dropped"), (2, "error"), (3, "error"), (4, "changed"), (5, "error"))
    ]
    *_, changed, binary = found["records"]
    assert changed["before"] == {
        "key": "k4",
        "value": '{"region":"eu"}',
        "headers": [["trace", "t"]],
        "bytes": 23,
    }
    assert changed["after"] == {**changed["before"], "headers": [], "bytes": 17}
    assert binary["before"]["value"] == {"base64": "/wA="}
    assert (shown.exit_code, answer.exit_code) == (5, 5)
    first = f"{topic_name}-0 offset 2: the transform eu-only fails: its filter is NULL"
    assert f"{topic_name}: 3 of 5 records of the sample fail, the first: {first}" in shown.stderr
    assert f"{topic_name} through eu-only, mask: 1 changed, 1 dropped, 3 error" in shown.stdout


@pytest.mark.usefixtures("spark")
def test_a_transform_is_tried_before_it_is_in_the_file(
    clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    fill_with(clusters, topic_name, VALUES[:2])
    file = write_config(tmp_path, clusters, topic_name)
    asked = "transform", file, "--flow", "A->B", "--topic", topic_name

    shown = run(*asked, "--filter", REGION, "--value", MASK, "--add-header", "origin=key")
    refused = run(*asked, "--value", "cast(uuid() AS binary)")
    mistyped = run(*asked, "--filter", "key")
    wrong = run(*asked, "--filter", "value IS IS")
    unknown = run("transform", file, "--topic", "nobodys", "--filter", "true")

    assert shown.exit_code == 0, shown.output
    lines = [line.split("│") for line in shown.stdout.splitlines() if "│" in line]
    rows = [[cell.strip() for cell in cells[1:-1]] for cells in lines]
    assert rows == [
        ["0", "0", "changed", "value", VALUES[0].decode(), '{"region":"eu","email":"***"}'],
        ["", "", "", "headers", "trace=t", "trace=t, origin=k0"],
        ["0", "1", "dropped", "key", "k1", ""],
        ["", "", "", "value", VALUES[1].decode(), ""],
        ["", "", "", "headers", "trace=t", ""],
    ]
    assert f"replication.transforms.NAME.filter: {REGION}" in shown.stdout
    assert (refused.exit_code, mistyped.exit_code, wrong.exit_code) == (2, 2, 2)
    assert unknown.exit_code == 8
    assert "--value: calls uuid" in refused.stderr
    assert "--filter: is of type binary, and not boolean" in mistyped.stderr
    assert "--filter: Spark does not take it" in wrong.stderr
    assert "A->B does not replicate it" in unknown.stderr


def test_what_differs_between_two_evaluations_and_what_spark_fails_on_is_found(
    spark: SparkSession, clusters: Clusters, topic_name: str
) -> None:
    fill_with(clusters, topic_name, (b"a", b"bad", b"c"))
    config = flow_config(*clusters, topic_name)
    windows = {TopicPartition(topic_name, 0): (0, 3)}

    def outcomes(value: str, where: str = "") -> list[tuple[str, tuple[str, ...]]]:
        step = Transform(name="t", topics=(topic_name,), filter=where, value=value)
        found = sample(spark, config.source.consumer, windows, {topic_name: (step,)})
        assert [one.offset for one in found] == [0, 1, 2]
        return [(one.outcome, one.differing) for one in found]

    assert outcomes("cast(uuid() AS binary)") == [("changed", ("value",))] * 3
    assert outcomes("key", "rand() < 2") == [("changed", ())] * 3
    fails = "if(value = cast('bad' AS binary), cast(raise_error('boom') AS binary), value)"
    assert outcomes(fails) == [("same", ()), ("error", ()), ("same", ())]
