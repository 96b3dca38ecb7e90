"""The user's Java classes: when they are asked."""

from collections.abc import Iterator

import pytest

from replication.mm2.policy import CLASSES, CustomClass, ask_with
from tests.support.settings import ONE_FLOW, parse_settings


@pytest.fixture
def asked() -> Iterator[list[str]]:
    """The methods that were asked; each answers ``answer``."""
    methods: list[str] = []

    def ask(_: CustomClass, method: str, _arguments: tuple[str, ...]) -> str:
        methods.append(method)
        return "answer"

    ask_with(ask)
    yield methods
    ask_with(lambda *_: pytest.fail("nobody asks"))


def test_a_file_is_read_without_asking_the_classes_that_it_names(asked: list[str]) -> None:
    config = parse_settings({**ONE_FLOW, **dict.fromkeys(CLASSES, "org.example.Own")})

    assert asked == []
    assert config.heartbeats[0].topic == "answer"
    assert asked == ["heartbeatsTopic"]
