"""Each recipe of conf/docs/transforms.md is read from the page, and does what the page says."""

from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path

import pytest
import yaml
from pyspark.sql import SparkSession

from replication.config.file import load
from replication.config.tree import FlowConfig
from replication.spark.copies import transformed
from replication.spark.transform_check import transform_problems
from replication.topics.topic_plan import chain_of
from tests.support.recipes import CASES, SALT, Case, Record, recipes

pytestmark = pytest.mark.spark

SCHEMA = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, "
    "timestampType int, headers array<struct<key:string,value:binary>>"
)


def test_each_recipe_of_the_page_is_tested() -> None:
    assert list(recipes()) == list(CASES)
    assert [sorted(recipes()[title]) for title in CASES] == [
        sorted(case.flow for case in cases) for cases in CASES.values()
    ]


@pytest.mark.parametrize("title", CASES)
def test_a_recipe_does_what_the_page_says(title: str, spark: SparkSession, tmp_path: Path) -> None:
    for case in CASES[title]:
        config = flow_of(recipes()[title][case.flow], case, tmp_path)

        problems = [each for step in config.transforms for each in transform_problems(spark, step)]
        assert problems == []
        assert made(spark, config, case) == list(case.copies)


def flow_of(settings: Mapping[str, object], case: Case, folder: Path) -> FlowConfig:
    """The flow of a file that has these *settings*."""
    source, target = case.flow.split("->")
    file = folder / "mirror.yaml"
    servers = {alias: {"bootstrap.servers": f"{alias}:1"} for alias in (source, target)}
    flow = {case.flow: {"enabled": True, **settings}}
    file.write_text(yaml.safe_dump({"clusters": [source, target], **servers, **flow}))
    return load(file, environ=SALT, default_state_dir="/state").flows[0]


def made(spark: SparkSession, config: FlowConfig, case: Case) -> list[Record]:
    """What the flow's transforms make of the records of *case*."""
    at = datetime(2026, 11, 26, tzinfo=timezone.utc)
    rows = [
        (key, value, case.topic, 0, offset, at, 0, list(headers) or None)
        for offset, (key, value, headers) in enumerate(case.records)
    ]
    chains = {case.topic: chain_of(config, case.topic)}
    assert all(chains.values()), "the recipe names no such topic"
    found = transformed(spark.createDataFrame(rows, SCHEMA), chains).collect()
    return [
        (
            None if row.key is None else bytes(row.key),
            None if row.value is None else bytes(row.value),
            tuple(
                (header.key, None if header.value is None else bytes(header.value))
                for header in row.headers or ()
            ),
        )
        for row in found
    ]
