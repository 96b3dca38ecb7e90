"""Errors form one tree, drawn at the top of errors.py with the exit code each one gets."""

import re
from inspect import getmembers, isclass

from replication import errors
from replication.errors import ConfigError, IdentityError, ReplicationError, SetupError

DRAWN = re.findall(r"(\w+Error) +(\d+) {2}\w", errors.__doc__ or "")
CLASSES = [cls for _, cls in getmembers(errors, isclass) if cls.__module__ == errors.__name__]
DEFINED = [cls for cls in CLASSES if issubclass(cls, ReplicationError)]


def test_every_error_is_drawn_with_its_exit_code() -> None:
    defined = {(error.__name__, str(error.exit_code)) for error in DEFINED}

    assert set(DRAWN) == defined


def test_every_error_but_three_has_an_exit_code_of_its_own() -> None:
    # as ConfigError: correct it and start again
    shared: set[type[ReplicationError]] = {SetupError, IdentityError}
    codes = [error.exit_code for error in DEFINED if error not in shared]

    assert sorted(codes) == list(range(1, len(codes) + 1))
    assert {error.exit_code for error in shared | {ConfigError}} == {2}


def test_every_error_has_one_root() -> None:
    assert CLASSES == DEFINED


def test_a_config_error_says_all_its_problems() -> None:
    error = ConfigError("mm2.properties", ["clusters: missing", "topcis: unknown"])

    assert str(error) == (
        "mm2.properties has 2 problem(s):\n  - clusters: missing\n  - topcis: unknown"
    )
    assert error.problems == ("clusters: missing", "topcis: unknown")
