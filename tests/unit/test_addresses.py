"""What only this machine reaches, and by which names a server may be asked."""

import pytest

from replication.config.metrics_settings import is_loopback, is_own

EVERYWHERE = "0.0.0.0"  # noqa: S104 - what the rules are about


@pytest.mark.parametrize("address", ["127.0.0.1", "127.1.2.3", "localhost", "::1", "[::1]"])
def test_only_this_machine_reaches_loopback(address: str) -> None:
    assert is_loopback(address)


@pytest.mark.parametrize("address", [EVERYWHERE, "::", "10.0.0.5", "host.example.com", ""])
def test_others_reach_any_other_address(address: str) -> None:
    assert not is_loopback(address)


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:9404", "127.0.0.1:80", "::1", "[::1]:80", " Etl-7:80 "]
)
def test_a_server_has_the_names_of_loopback_and_its_own(host: str) -> None:
    assert is_own(host, ["ETL-7"], takes_addresses=False)


@pytest.mark.parametrize("host", ["", "evil.example", "localhost.evil.example", "[", "::1:80"])
def test_no_other_name_is_a_servers(host: str) -> None:
    assert not is_own(host, ["etl-7"], takes_addresses=False)


@pytest.mark.parametrize("host", ["10.0.0.7:9404", "[fd00::7]:9404", "fd00::7"])
def test_a_server_of_all_addresses_is_asked_by_each_of_them(host: str) -> None:
    assert is_own(host, [], takes_addresses=True)
    assert not is_own(host, [], takes_addresses=False)
