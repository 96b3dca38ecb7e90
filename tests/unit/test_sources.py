"""Which Kafka source reads the records: ours where it can, and Spark's own where it must."""

import pytest

from replication.errors import SetupError
from replication.model import Source
from replication.spark.mode import (
    INTERFACE,
    SHADED,
    SHARED,
    SourceChoice,
    choose_source,
    most_tasks,
    obstacle_to_sharing,
)
from tests.support.settings import ONE_FLOW, parse_settings, problems_of

HERE = {SHARED, INTERFACE}


@pytest.mark.parametrize(
    ("classes", "settings", "obstacle"),
    [
        pytest.param(HERE, ("spark.master",), "", id="ours can read"),
        pytest.param(
            {INTERFACE}, (), f"the class {SHARED} is not on Spark's class path", id="no jar"
        ),
        pytest.param({SHARED}, (), "this Spark lacks the interfaces", id="Spark 4.0"),
        pytest.param({*HERE, SHADED}, (), "this Spark has a Kafka client of its own", id="shaded"),
        pytest.param(
            HERE,
            ("spark.kafka.clusters.a.auth.bootstrap.servers",),
            "only Spark's source knows the delegation tokens",
            id="tokens",
        ),
    ],
)
def test_what_keeps_the_shared_source_from_reading(
    classes: set[str], settings: tuple[str, ...], obstacle: str
) -> None:
    found = obstacle_to_sharing(lambda name: name in classes, settings)

    assert found.startswith(obstacle)
    assert bool(found) == bool(obstacle)


def test_spark_s_source_is_taken_where_it_is_configured() -> None:
    assert choose_source("spark", "") == SourceChoice("spark", "as configured")


def test_auto_takes_the_shared_source_and_spark_s_where_ours_cannot_read() -> None:
    assert choose_source("auto", "").source == "shared"
    assert choose_source("auto", "no jar: add it") == SourceChoice("spark", "no jar: add it")


def test_a_configured_source_is_refused_and_not_replaced() -> None:
    assert choose_source("shared", "").source == "shared"
    with pytest.raises(SetupError) as refusal:
        choose_source("shared", "no jar: add it")

    assert str(refusal.value) == (
        "replication.source=shared is impossible here: no jar: add it, or use auto"
    )


@pytest.mark.parametrize(
    ("cores", "tasks_max", "expected"),
    [(0, None, 1), (2, None, 2), (64, None, 8), (2, 1, 1), (2, 5, 5), (64, 20, 20)],
)
def test_tasks_follow_the_cores_unless_the_file_says_how_many(
    cores: int, tasks_max: int | None, expected: int
) -> None:
    assert most_tasks(cores, tasks_max) == expected


@pytest.mark.parametrize(
    ("cores", "sharing", "expected"),
    [(2, 2, 2), (2, 3, 2), (2, 4, 1), (2, 20, 1), (16, 4, 8), (16, 20, 2), (0, 20, 1), (2, 0, 2)],
)
def test_many_flows_have_two_tasks_for_each_core_together(
    cores: int, sharing: int, expected: int
) -> None:
    assert most_tasks(cores, None, sharing) == expected
    assert most_tasks(cores, 5, sharing) == 5, "tasks.max is the file's word"


@pytest.mark.parametrize("source", ["auto", "shared", "spark"])
def test_a_file_may_choose_the_source_and_the_tasks_of_one_flow(source: Source) -> None:
    settings = {**ONE_FLOW, "A->B.replication.source": source, "tasks.max": "7"}

    (flow,) = parse_settings(settings).flows

    assert (flow.record_source, flow.tasks_max) == (source, 7)
    assert parse_settings(settings).notes == ()


def test_a_wrong_source_or_number_of_tasks_is_said_before_spark_starts() -> None:
    wrong = {"replication.source": "kafka", "A->B.tasks.max": "0", "tasks.max": "many"}

    assert sorted(problems_of({**ONE_FLOW, **wrong})) == [
        "A->B.tasks.max: '0' is invalid; write 1 or more",
        "replication.source: 'kafka' is invalid; write auto, shared or spark",
        "tasks.max: 'many' is invalid; write a whole number, for example 1",
    ]
