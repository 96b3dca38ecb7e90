"""The SQL of the documents runs on the tables."""

from datetime import datetime, timezone
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from replication.state.schemas import SCHEMAS
from replication.state.tables import Tables
from tests.support.documents import OPERATIONS, blocks

pytestmark = pytest.mark.spark

FOLDER = "/var/lib/replication"  # where the documents have state.dir
# Each table takes the columns that it has.
ROW = {"flow": "A->B", "topic": "orders", "at": datetime.now(timezone.utc), "reread": 5}


def test_the_sql_of_the_documents_finds_the_rows(spark: SparkSession, tmp_path: Path) -> None:
    tables = Tables(spark, tmp_path.as_uri())
    for name in SCHEMAS:
        tables.append(name, [ROW])
    statements = [
        statement.replace(FOLDER, str(tmp_path))
        for block in blocks(OPERATIONS, "sql")
        for statement in block.split(";")
        if statement.strip()
    ]

    rows = [len(spark.sql(statement).collect()) for statement in statements]

    assert rows == [1, 1, 1, 1]
