"""The driver's HTTP server is off by default, on this machine only, and warns where it is not."""

import pytest

from replication.errors import ConfigError
from tests.support.settings import ONE_FLOW, parse_settings


def warnings(**settings: str) -> tuple[str, ...]:
    """What a file with these keys of ``metrics`` warns of."""
    keys = {f"metrics.{name.replace('_', '.')}": value for name, value in settings.items()}
    return parse_settings({**ONE_FLOW, **keys}).warnings


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        ("metrics.listen", "etl-7", "'etl-7' is no address"),
        ("metrics.port", "70000", "write 65535 or less"),
        ("metrics.partitions", "some", "write off, lagging or all"),
        ("metrics.topics.max", "0", "write 1 or more"),
        ("A->B.metrics.port", "9404", r"is a top-level key; write metrics\.port"),
    ],
)
def test_bad_values_are_found_before_anything_starts(key: str, value: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        parse_settings({**ONE_FLOW, key: value})


@pytest.mark.parametrize("listen", ["127.0.0.1", "localhost", "::1"])
def test_this_machine_may_read_without_a_warning(listen: str) -> None:
    assert warnings(port="9404", listen=listen) == ()


def test_other_machines_are_warned_of_once_there_is_a_port() -> None:
    assert warnings(listen="0.0.0.0") == ()  # noqa: S104
    (warning,) = warnings(port="9404", listen="0.0.0.0")  # noqa: S104
    assert warning.startswith("metrics.listen: whoever reaches port 9404 of 0.0.0.0 may read")


def test_series_of_all_partitions_are_warned_of() -> None:
    (warning,) = warnings(partitions="all")
    assert warning.startswith("metrics.partitions: all gives Prometheus two series")
