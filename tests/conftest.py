"""The fixtures of all tests: two real clusters, a Spark session, topic names, and `until`."""

import uuid
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from replication.config.home import OUR_JAR
from replication.demo.brokers import QUICK_COMPACTION, Broker, BrokerSettings, running
from tests.support.broker_archive import archived
from tests.support.containers import ContainerBroker, check_engine, in_containers
from tests.support.gate.judge import Judge
from tests.support.gate.plugin import Gate
from tests.support.kerberos import use_kerberos
from tests.support.least_privilege import AUTHORIZER, Strict
from tests.support.local import SPARK_SLOTS, Clusters, Until, jars
from tests.support.rotation import GUARANTEES
from tests.support.said import SaidLines, said_lines
from tests.support.scheduling import FilesInTurn, sort_slowest_first
from tests.support.schema_registry import Registries, fake_registry
from tests.support.secured import Authorities, Secured, authorities, secured_broker
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from replication.state.tables import Tables

# Large enough for large-record tests, which lower it per topic (max.message.bytes).
BROKER_PROPERTIES: Final = {**QUICK_COMPACTION, "message.max.bytes": "20000000"}
MakeBroker = Callable[[str, Path], Broker]


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("gate", "which tests run, and what decides: tests/README.md")
    group.addoption("--soak", action="store_true", help="run the tests that take many minutes")
    group.addoption(
        "--gate",
        choices=("share", "all", "soak", "again"),
        help="choose a share of the tests, or all, or all with --soak; judge missed limits",
    )
    group.addoption(
        "--budget",
        type=float,
        metavar="SECONDS",
        help="for what is near a change, on a calm machine",
    )
    group.addoption("--until", type=float, metavar="EPOCH", help="start no test after this time")
    group.addoption("--hard-end", type=float, metavar="EPOCH", help="end all tests at this time")
    group.addoption("--gate-report", metavar="FILE", help="of a second run, for the first")
    group.addoption(
        "--write-durations", action="store_true", help="renew tests/durations.json by this run"
    )


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> FilesInTurn:
    return FilesInTurn(config, log)


def pytest_configure(config: pytest.Config) -> None:
    """Without the container engine that the user asked for, no test runs."""
    if in_containers():
        check_engine()
    judge = Judge(config.getoption("--until"), config.getoption("--hard-end"))
    config.pluginmanager.register(judge, "judge")
    if mode := config.getoption("--gate"):
        config.pluginmanager.register(Gate(config, mode), "gate")


def pytest_itemcollected(item: pytest.Item) -> None:
    if "guarantee" in item.keywords:
        GUARANTEES.add(item.nodeid)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--gate"):
        return
    sort_slowest_first(items)
    for item in items:
        if "soak" in item.keywords and not config.getoption("--soak"):
            item.add_marker(pytest.mark.skip(reason="takes many minutes; run with --soak"))


@pytest.fixture(scope="session")
def broker_settings(tmp_path_factory: pytest.TempPathFactory) -> BrokerSettings:
    """The settings of a broker, for tests that start, stop and kill their own."""
    settings = BrokerSettings(
        jars=jars("kafka", override="KAFKA_JARS"), properties=BROKER_PROPERTIES
    )
    return archived(settings, tmp_path_factory.mktemp("archived"))


@pytest.fixture(scope="session")
def make_broker(request: pytest.FixtureRequest) -> MakeBroker:
    """Makes a broker of an alias and a folder: a process, or a container if that is asked for."""
    if in_containers():
        return partial(ContainerBroker, properties=BROKER_PROPERTIES)
    return partial(Broker, settings=request.getfixturevalue("broker_settings"))


@pytest.fixture(scope="session")
def clusters(
    make_broker: MakeBroker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Clusters]:
    """Two running clusters, A and B. All tests share them, so leave them running."""
    folder = tmp_path_factory.mktemp("clusters")
    both = make_broker("A", folder / "A"), make_broker("B", folder / "B")
    with running(*both):
        yield both


@pytest.fixture(scope="session")
def trusted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Authorities]:
    """The certificates and the Kerberos server of secured brokers."""
    folder = tmp_path_factory.mktemp("authorities")
    with pytest.MonkeyPatch.context() as patch, authorities(folder) as made:
        use_kerberos(patch, made.kerberos)
        yield made


@pytest.fixture(scope="session")
def secured(
    broker_settings: BrokerSettings,
    trusted: Authorities,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Secured]:
    """A broker with TLS and SASL listeners. Leave it running."""
    with secured_broker(tmp_path_factory.mktemp("secured"), broker_settings, trusted) as broker:
        yield broker


@pytest.fixture(scope="session")
def strict(
    broker_settings: BrokerSettings,
    trusted: Authorities,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Strict]:
    """Two clusters whose users may do what an ACL allows, and nothing else."""
    folder = tmp_path_factory.mktemp("strict")
    with (
        secured_broker(folder / "A", broker_settings, trusted, AUTHORIZER) as first,
        secured_broker(folder / "B", broker_settings, trusted, AUTHORIZER) as second,
    ):
        yield first, second


@pytest.fixture
def own_broker(make_broker: MakeBroker, tmp_path: Path) -> Iterator[Broker]:
    """A cluster of this test alone, to be stopped, killed and started; it keeps its address."""
    broker = make_broker("own", tmp_path / "own")
    with running(broker):
        yield broker
        broker.kill()  # nobody reads its data again


@pytest.fixture
def own_process(broker_settings: BrokerSettings, tmp_path: Path) -> Iterator[Broker]:
    """Like `own_broker`, and never in a container, so that the test can reach its files."""
    broker = Broker("own", tmp_path / "own", broker_settings)
    with running(broker):
        yield broker
        broker.kill()


@pytest.fixture(scope="session")
def spark() -> "Iterator[SparkSession]":
    """A local session with the Kafka connector, Delta and our Java classes."""
    from replication.spark.kafka_options import DELAY  # noqa: PLC0415 - unit tests load no Spark
    from replication.spark.session import local_session  # noqa: PLC0415

    connectors = sorted(jars("spark", override="SPARK_JARS").glob("*.jar"))
    sources = max(file.stat().st_mtime for file in OUR_JAR.parent.glob("*.java"))
    if not OUR_JAR.exists() or OUR_JAR.stat().st_mtime < sources:
        pytest.fail(f"{OUR_JAR} is missing or old: ./spark-submit.sh --setup compiles it")
    slower = {DELAY: "100ms"}  # idle queries leave the cores to the other groups of tests
    session = local_session([*connectors, OUR_JAR], SPARK_SLOTS, "tests", settings=slower)
    yield session
    session.stop()


@pytest.fixture
def tables(spark: "SparkSession", tmp_path: Path) -> "Tables":
    """The tables of a state directory of the test's own."""
    from replication.state.tables import Tables  # noqa: PLC0415 - unit tests load no Spark

    return Tables(spark, tmp_path.as_uri())


@pytest.fixture
def topic_name(request: pytest.FixtureRequest) -> str:
    """A topic name that no other test has, without dots (the default separator)."""
    return f"{request.node.originalname}-{uuid.uuid4().hex[:8]}"[-200:]


@pytest.fixture
def said() -> Iterator[SaidLines]:
    """What the product's log says during the test: ``said.of("restarting")``."""
    with said_lines() as lines:
        yield lines


@pytest.fixture
def registries() -> Iterator[Registries]:
    """Schema registries of clusters A and B; that of B asks for a user."""
    with fake_registry() as a, fake_registry("mirror:secret") as b:
        yield a, b


@pytest.fixture
def until() -> Until:
    """Waits for a condition: ``until(lambda: lag() == 0, 30)``."""
    return wait_until
