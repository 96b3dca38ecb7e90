"""How many tasks share a flow's partitions, and when those that run no longer fit."""

import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from replication.flows.replicate.generations import Admitted, FlowTasks
from replication.model import Mode, Source
from replication.spark.mode import BOOKKEEPING_SLOTS, Reading, Sharing
from replication.spark.session import sharing_of
from replication.state.tables import Tables
from replication.upkeep.prepare import reserve_all
from tests.support.flows import flow_context
from tests.support.local import SPARK_SLOTS
from tests.support.settings import ONE_FLOW, parse_settings

pytestmark = pytest.mark.spark

CORES = os.cpu_count() or 1


def tasks(
    spark: SparkSession, folder: Path, share: int | None, mode_now: Mode = "realtime", **keys: str
) -> FlowTasks:
    """The tasks of a flow that may hold *share* slots, None for what the session has."""
    settings = {**ONE_FLOW, "replication.source": "shared"}
    settings |= {key.replace("_", "."): value for key, value in keys.items()}
    (config,) = parse_settings(settings).flows
    admitted = Admitted(
        reserve_all,
        lambda: mode_now,
        lambda: mode_now,
        None if share is None else lambda: share,
    )
    return FlowTasks(flow_context(spark, Tables(spark, folder.as_uri()), config), admitted)


def shared(count: int, mode: Mode = "realtime", *, takes_turns: bool = False) -> Reading:
    return Reading(mode, "shared", count, takes_turns)


def in_turn(count: int) -> Reading:
    return shared(count, takes_turns=True)


@pytest.mark.parametrize(
    ("partitions", "share", "running", "expected"),
    [
        pytest.param(1000, 100, [], in_turn(5), id="tasks.max"),
        pytest.param(3, 100, [], in_turn(3), id="no more than partitions"),
        pytest.param(1000, 4, [], shared(4), id="no more than slots"),
        pytest.param(1000, 4, [shared(3)], shared(1), id="what is left of the slots"),
        pytest.param(1000, 7, [shared(2)], shared(2), id="half: newer ones may come"),
        pytest.param(1000, 4, [in_turn(1)], shared(1), id="half of what turns leave of the slots"),
        pytest.param(1000, 100, [shared(1)], in_turn(2), id="half of what is left of tasks.max"),
        pytest.param(1000, 100, [shared(4)], in_turn(1), id="what is left of tasks.max"),
        pytest.param(1000, 1, [], shared(1), id="one at least"),
        pytest.param(1, 3, [], in_turn(1), id="slots for turns and a new topic"),
        pytest.param(2, 5, [], shared(2), id="turns would leave no slot for a new topic"),
    ],
)
def test_tasks_of_one_more_generation(
    spark: SparkSession,
    tmp_path: Path,
    partitions: int,
    share: int,
    running: list[Reading],
    expected: Reading,
) -> None:
    found = tasks(spark, tmp_path, share, tasks_max="5")

    assert found.reading(partitions, "realtime", running) == expected


def test_without_tasks_max_they_follow_from_the_cores_and_the_slots(
    spark: SparkSession, tmp_path: Path
) -> None:
    found = tasks(spark, tmp_path, None)

    most = min(CORES, 8, SPARK_SLOTS)
    assert found.reading(1000, "microbatch", []) == shared(most, "microbatch")
    assert found.reading(1000, "realtime", []).tasks == min(most, SPARK_SLOTS - BOOKKEEPING_SLOTS)


@pytest.mark.parametrize(
    ("mode", "share", "running", "has_room"),
    [
        ("realtime", 100, [2], True),
        ("realtime", 100, [2, 3], False),  # tasks.max is reached
        ("realtime", 2, [2], False),  # the slots are taken
        ("microbatch", 2, [2], True),  # its tasks hold no slots
    ],
)
def test_a_further_generation_needs_room(
    spark: SparkSession,
    tmp_path: Path,
    mode: Mode,
    share: int,
    running: list[int],
    has_room: bool,  # noqa: FBT001 - a table's column
) -> None:
    found = tasks(spark, tmp_path, share, tasks_max="5")

    assert found.has_room([shared(n, mode) for n in running]) == has_room


def test_turns_hold_two_slots_for_each_task(spark: SparkSession, tmp_path: Path) -> None:
    found = tasks(spark, tmp_path, 4)

    assert found.has_room([in_turn(1)])
    assert not found.has_room([in_turn(2)])


@pytest.mark.parametrize(
    ("running", "share", "mode_now", "text"),
    [
        pytest.param(shared(4), 4, "realtime", "", id="they fit"),
        pytest.param(shared(4), 3, "realtime", "4 tasks run, 3 fit now", id="slots have gone"),
        pytest.param(shared(3), 5, "realtime", "", id="a few more are no reason"),
        pytest.param(shared(2), 5, "realtime", "2 tasks run, 5 fit now", id="many have come"),
        pytest.param(shared(2), 5, "microbatch", "microbatch fits now", id="another mode"),
        pytest.param(shared(2, "microbatch"), 5, "microbatch", "", id="tasks hold no slots"),
        pytest.param(Reading("realtime", "spark", 2), 1, "realtime", "", id="Spark's source"),
    ],
)
def test_what_no_longer_fits_the_slots_is_said(
    spark: SparkSession, tmp_path: Path, running: Reading, share: int, mode_now: Mode, text: str
) -> None:
    settings = {"tasks_max": "5", "replication_source": running.source}
    found = tasks(spark, tmp_path, share, mode_now, **settings)

    assert found.misfit(1000, [running]) == text


@pytest.mark.parametrize(
    ("wanted", "tasks_max", "expected"),
    [
        ("spark", 5, None),
        ("shared", 5, Sharing(tasks=5, brokers=3)),
        ("auto", None, Sharing(tasks=min(CORES, 8, SPARK_SLOTS), brokers=3)),
    ],
)
def test_what_a_start_counts_is_read_by_the_source_of_the_flow(
    spark: SparkSession, wanted: Source, tasks_max: int | None, expected: Sharing | None
) -> None:
    assert sharing_of(spark, wanted, tasks_max, brokers=3) == expected
