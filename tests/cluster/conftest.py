"""What tests with clusters share."""

import pytest

from replication.kafka import clients


@pytest.fixture(params=["confluent-kafka", "Java"])
def each_client(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The client of each test: every rule holds for both."""
    monkeypatch.setattr(clients, "is_secured", lambda _: request.param == "Java")
    return str(request.param)
