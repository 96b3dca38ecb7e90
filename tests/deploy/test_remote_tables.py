"""Damaged tables without positions are moved aside also where `state.dir` is on HDFS."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from replication.config.state_access import StateAccess
from replication.errors import StateError
from replication.model import Flow
from replication.spark.hadoop import session_conf
from replication.spark.session import jvm_of
from replication.state.files import HadoopFiles
from replication.state.schemas import DamagedTableError
from replication.state.storage import storage_for
from replication.state.tables import RemoteAside, Tables, reader_of
from tests.support.damage import DAMAGES
from tests.support.frames import frame
from tests.support.hadoop import Hadoop, mini_hadoop
from tests.support.stored import spark_tables

pytestmark = [pytest.mark.cluster, pytest.mark.spark]

FLOW = Flow("A", "B")
ROW = {"flow": str(FLOW), "epoch": 7, "owner": "x"}


@pytest.fixture(scope="module")
def hadoop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hadoop]:
    with mini_hadoop(tmp_path_factory.mktemp("hadoop")) as cluster:
        yield cluster


def tables_on(spark: SparkSession, root: str) -> Tables:
    """Tables on HDFS that delta-rs reads and writes."""
    return Tables(spark, root, storage=storage_for(StateAccess(root, engine="delta-rs")))


def damaged(
    spark: SparkSession, hadoop: Hadoop, folder: Path, table: str, damage: str
) -> tuple[Tables, HadoopFiles]:
    """Tables on HDFS of which one was damaged after three commits, and the files there."""
    here = Tables(spark, folder.as_uri())
    for _ in range(3):
        here.append(table, [{"flow": str(FLOW)} if table == "offset_runs" else ROW])
    DAMAGES[damage](folder / table)
    root = f"{hadoop.uri}/{folder.name}"
    java, conf = jvm_of(spark).org.apache.hadoop.fs.Path, session_conf(spark)
    system = java(root).getFileSystem(conf)
    system.mkdirs(java(root))
    system.copyFromLocalFile(java(str(folder / table)), java(f"{root}/{table}"))
    return tables_on(spark, root), HadoopFiles(jvm_of(spark), conf)


@pytest.mark.parametrize(
    "damage", ["data_gone", "commit_cut", "commit_of_zeros", "first_commit_gone", "commit_missing"]
)
def test_a_flow_goes_on_with_new_leases(
    spark: SparkSession, hadoop: Hadoop, tmp_path: Path, damage: str
) -> None:
    tables, files = damaged(spark, hadoop, tmp_path, "leases", damage)

    rows = tables.mended("leases", FLOW, lambda: reader_of(tables).rows("leases", FLOW))
    tables.append("leases", [{**ROW, "epoch": 8}])

    assert rows == []
    assert [row.epoch for row in frame(tables, "leases").collect()] == [8]
    assert [row.kind for row in frame(tables, "events").collect()] == ["table-damaged"]
    (aside,) = files.find(f"{tables.root}/leases.damaged-")
    assert files.exists(f"{aside}/_delta_log")
    assert tables.was_set_aside("leases")
    assert files.find(f"{tables.root}/_control/aside-") == []


def test_of_two_processes_one_moves_the_table(
    spark: SparkSession, hadoop: Hadoop, tmp_path: Path
) -> None:
    first, files = damaged(spark, hadoop, tmp_path, "leases", "commit_cut")
    second = tables_on(spark, first.root)
    threads = [
        threading.Thread(target=tables.append, args=("leases", [{**ROW, "epoch": epoch}]))
        for epoch, tables in ((8, first), (9, second))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(row.epoch for row in frame(first, "leases").collect()) == [8, 9]
    assert [row.kind for row in frame(first, "events").collect()] == ["table-damaged"]
    assert len(files.find(f"{first.root}/leases.damaged-")) == 1


def test_of_several_claims_one_at_a_time_counts(spark: SparkSession, hadoop: Hadoop) -> None:
    files = HadoopFiles(jvm_of(spark), session_conf(spark))
    inside, most = list[int](), list[int]()

    def act() -> None:
        with RemoteAside(files, f"{hadoop.uri}/claims/leases", 0.3).alone():
            inside.append(1)
            most.append(len(inside))
            inside.pop()

    threads = [threading.Thread(target=act) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert most == [1] * 4
    assert files.find(f"{hadoop.uri}/claims/_control/aside-") == []


FEATURES = {
    "none": {},
    "deletion vectors": {"delta.enableDeletionVectors": "true"},
    "checkpoints v2": {"delta.checkpointPolicy": "v2"},
}
"""What somebody may have switched on in a table that Spark has written."""


@pytest.mark.parametrize("features", FEATURES)
def test_either_engine_goes_on_with_the_tables_of_the_other(
    spark: SparkSession, hadoop: Hadoop, tmp_path: Path, features: str
) -> None:
    by_delta_rs = tables_on(spark, f"{hadoop.uri}/{tmp_path.name}")
    by_spark = spark_tables(by_delta_rs)
    assert (by_delta_rs.storage.engine, by_spark.storage.engine) == ("delta-rs", "spark")
    by_spark.append("leases", [{**ROW, "epoch": epoch} for epoch in range(5)])
    if FEATURES[features]:
        by_spark.set_properties("leases", FEATURES[features])
    by_spark.delete("leases", "epoch = 3")
    for epoch in range(10, 22):  # the log gets a checkpoint
        by_spark.append("leases", [{**ROW, "epoch": epoch}])

    def epochs() -> list[list[int]]:
        readers = [reader_of(tables) for tables in (by_spark, by_delta_rs)]
        return [sorted(row["epoch"] for row in one.rows("leases", FLOW)) for one in readers]

    expected = [0, 1, 2, 4, *range(10, 22)]
    assert epochs() == [expected, expected]
    by_delta_rs.append("leases", [{**ROW, "epoch": 30}])
    by_delta_rs.delete("leases", "epoch = 1")
    by_delta_rs.optimize("leases")
    by_spark.append("leases", [{**ROW, "epoch": 31}])
    by_spark.delete("leases", "epoch = 2")
    expected = [0, 4, *range(10, 22), 30, 31]
    assert epochs() == [expected, expected]


def test_a_feature_that_delta_rs_does_not_write_is_an_error_with_the_step(
    spark: SparkSession, hadoop: Hadoop, tmp_path: Path
) -> None:
    tables = tables_on(spark, f"{hadoop.uri}/{tmp_path.name}")
    by_spark = spark_tables(tables)
    by_spark.append("leases", [ROW])
    by_spark.set_properties("leases", {"delta.enableInCommitTimestamps": "true"})

    assert len(reader_of(tables).rows("leases", FLOW)) == 1
    with pytest.raises(StateError, match=r"InCommitTimestamp.*; .* or write state\.engine: spark"):
        tables.append("leases", [ROW])

    assert not tables.was_set_aside("leases")


def test_the_offset_map_stays_where_it_is(
    spark: SparkSession, hadoop: Hadoop, tmp_path: Path
) -> None:
    tables, files = damaged(spark, hadoop, tmp_path, "offset_runs", "commit_cut")

    with pytest.raises(DamagedTableError, match="stop the mirror, move this folder away"):
        tables.append("offset_runs", [{"flow": str(FLOW)}])

    assert files.find(f"{tables.root}/offset_runs.damaged-") == []
