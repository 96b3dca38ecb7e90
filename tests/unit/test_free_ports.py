"""A broker asks for all its ports before it listens at the first of them."""

from itertools import islice

import pytest

from replication.demo.brokers import PORTS, free_port, is_free


def test_no_port_is_returned_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    above = range(PORTS.stop, PORTS.stop + 500)
    few = list(islice(filter(is_free, above), 3))
    monkeypatch.setattr("random.sample", lambda _ports, _count: few)

    assert [free_port() for _ in few] == few
