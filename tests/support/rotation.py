"""Which Kafka source the flows of a test read by, where the test does not say it."""

import os
from typing import Final, cast

from replication.model import Source

FORCED: Final = "TEST_SOURCE"
"""The environment variable that names one source for all tests."""


def source_of_this_test() -> Source:
    """The source of the test that runs now."""
    return cast("Source", os.environ.get(FORCED) or "auto")
