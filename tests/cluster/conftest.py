"""What tests with clusters share."""

import uuid
from collections.abc import Iterator

import pytest

from replication.kafka import calls
from replication.kafka.cluster import Cluster
from tests.support.flows import RunningFlow
from tests.support.local import Clusters
from tests.support.remote_topics import Sides


@pytest.fixture(autouse=True)
def no_flow_goes_on() -> Iterator[None]:
    """Stops the flows of a test that failed before it could: the next one shares their session."""
    yield
    RunningFlow.stop_all()


@pytest.fixture
def sides(clusters: Clusters) -> Sides:
    """Clients of both clusters."""
    a, b = (
        Cluster(alias, {"bootstrap.servers": broker.bootstrap})
        for alias, broker in zip("AB", clusters, strict=True)
    )
    return a, b


@pytest.fixture
def name() -> str:
    """A prefix of topic names that no other test has."""
    return f"topics-{uuid.uuid4().hex[:8]}"


@pytest.fixture(params=["confluent-kafka", "Java"])
def each_client(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The client of each test: every rule holds for both."""
    monkeypatch.setattr(calls, "is_secured", lambda _: request.param == "Java")
    return str(request.param)
