"""What every test may ask for: two real clusters, a Spark session, names, and a way to wait."""

import os
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from replication.demo.brokers import QUICK_COMPACTION, Broker, BrokerSettings, two_clusters

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REPOSITORY = Path(__file__).resolve().parents[1]
HOME = Path(os.environ.get("REPLICATION_HOME", REPOSITORY / ".local"))
SPARK_SLOTS = 6

Clusters = tuple[Broker, Broker]
Until = Callable[[Callable[[], object], float], None]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--soak", action="store_true", help="run the tests that take many minutes")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--soak"):
        return
    for item in items:
        if "soak" in item.keywords:
            item.add_marker(pytest.mark.skip(reason="takes many minutes; run with --soak"))


def jars(name: str, *, override: str) -> Path:
    """The folder of the jars of one configuration of conf/jars.xml."""
    folder = Path(os.environ.get(override, HOME / "jars" / name))
    if not list(folder.glob("*.jar")):
        reason = f"no jars in {folder}: run ./spark-submit.sh once, or set {override}"
        # A skip in CI would pass for a green run that tested nothing.
        (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)
    return folder


@pytest.fixture(scope="session")
def broker_settings() -> BrokerSettings:
    """For tests that start, stop and kill brokers of their own."""
    return BrokerSettings(
        jars=jars("kafka", override="KAFKA_JARS"),
        # Large enough for large-record tests, which lower it per topic (max.message.bytes).
        properties={**QUICK_COMPACTION, "message.max.bytes": "20000000"},
    )


@pytest.fixture(scope="session")
def clusters(
    broker_settings: BrokerSettings, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Clusters]:
    """Two running clusters, A and B, shared by all tests: leave them running."""
    with two_clusters(tmp_path_factory.mktemp("clusters"), broker_settings) as both:
        yield both


@pytest.fixture(scope="session")
def spark() -> "Iterator[SparkSession]":
    """A local session with the Kafka connector, Delta and the interceptor."""
    from replication.spark.session import local_session  # noqa: PLC0415 - starts no JVM elsewhere

    connectors = sorted(jars("spark", override="SPARK_JARS").glob("*.jar"))
    interceptor = REPOSITORY / "replication" / "jvm" / "preserve-timestamps.jar"
    if not interceptor.exists():
        pytest.fail(f"{interceptor} is missing: run ./spark-submit.sh once, which compiles it")
    session = local_session([*connectors, interceptor], SPARK_SLOTS, "tests")
    yield session
    session.stop()


@pytest.fixture
def topic_name(request: pytest.FixtureRequest) -> str:
    """A name no other test has, without dots (the default separator); add a suffix for more."""
    return f"{request.node.originalname}-{uuid.uuid4().hex[:8]}"[-200:]


@pytest.fixture
def until() -> Until:
    """Waits for a condition: ``until(lambda: lag() == 0, 30)``. False and None mean not yet."""

    def wait(condition: Callable[[], object], timeout_seconds: float) -> None:
        deadline = time.monotonic() + timeout_seconds
        last: object = None
        while time.monotonic() < deadline:
            last = condition()
            if last:
                return
            time.sleep(0.05)  # between two questions, not instead of one
        code = getattr(condition, "__code__", None)
        where = f"{code.co_filename}:{code.co_firstlineno}" if code else repr(condition)
        pytest.fail(f"still {last!r} after {timeout_seconds} s: the condition at {where}")

    return wait
