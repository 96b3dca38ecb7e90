"""Addresses and files of `serve` that do not go together are said before anything listens."""

import pytest

from replication.errors import ConfigError
from tests.support.settings import ONE_FLOW, parse_settings


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"rest.listen": "0.0.0.0"}, "rest.listen: '0.0.0.0' is reached from other machines"),  # noqa: S104
        ({"rest.path.prefix": "r/"}, "rest.path.prefix: 'r/' must begin with a slash"),
        ({"rest.tls.certificate": "/c.pem"}, "rest.tls.key: missing"),
        ({"rest.tls.client.ca": "/c.pem"}, "rest.tls.client.ca: has no effect"),
        ({"rest.tls.key": "/c.pem"}, "rest.tls.certificate: missing"),
        ({"rest.trusted.proxies": "10.0.0.7, gate"}, "rest.trusted.proxies: 'gate' is no address"),
    ],
)
def test_what_does_not_go_together_is_a_problem(settings: dict[str, str], problem: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse_settings({**ONE_FLOW, **settings})
    assert [text.startswith(problem) for text in raised.value.problems] == [True]


def test_another_address_needs_to_know_who_asks() -> None:
    config = parse_settings({**ONE_FLOW, "rest.listen": "10.0.0.7", "rest.tokens.file": "/t"})
    assert not config.serve.is_loopback


@pytest.mark.parametrize("key", ["A.rest.port", "A->B.rest.port"])
def test_the_address_is_of_the_file(key: str) -> None:
    with pytest.raises(ConfigError, match=r"is a top-level key; write rest\.port"):
        parse_settings({**ONE_FLOW, key: "8080"})
