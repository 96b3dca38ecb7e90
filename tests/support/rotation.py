"""Which Kafka source the flows of a test read by, where the test does not say it.

Most read by the default. Of the tests of guarantees, a third reads by Spark's own source; after
three commits, in which each test runs once, it is another third.
"""

import os
from functools import cache
from typing import Final, cast
from zlib import crc32

from replication.model import Source
from tests.support.gate.choice import SHARES
from tests.support.gate.repository import turn

GUARANTEES = set[str]()
"""The names of the tests of guarantees that this process has collected."""

FORCED: Final = "TEST_SOURCE"
"""The environment variable that names one source for all tests."""


def source_of_this_test() -> Source:
    """The source of the test that runs now."""
    if forced := os.environ.get(FORCED):
        return cast("Source", forced)
    nodeid = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
    return source_of(nodeid, _turn()) if nodeid in GUARANTEES else "auto"


def source_of(nodeid: str, commits: int) -> Source:
    """The source of a test of a guarantee at the commit of that number."""
    share = crc32(f"source of {nodeid}".encode()) % SHARES  # not those of the gate's rotation
    return "spark" if share == commits // SHARES % SHARES else "auto"


@cache
def _turn() -> int:
    return turn()
