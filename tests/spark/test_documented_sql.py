"""The SQL of the documents runs on the tables."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from replication.model import Flow
from replication.state.tables import SCHEMAS, Tables
from tests.support.documents import OPERATIONS, blocks

pytestmark = pytest.mark.spark

FOLDER = "/var/lib/replication"  # where the documents have state.dir


@pytest.mark.timeout(300)
def test_the_sql_of_the_documents_runs(spark: SparkSession, tmp_path: Path) -> None:
    tables = Tables(spark, tmp_path.as_uri())
    for name in SCHEMAS:
        tables.append(name, [{"flow": "A->B", "topic": "orders"}])
    statements = [
        statement.replace(FOLDER, str(tmp_path))
        for block in blocks(OPERATIONS, "sql")
        for statement in block.split(";")
        if statement.strip()
    ]

    rows = [len(spark.sql(statement).collect()) for statement in statements]

    assert len(rows) == 5
    assert tables.of("offset_runs", Flow("A", "B")).count() == 0, "the last one deletes"
