"""Each pinned release runs on every Python that set-up takes, or says on which."""

from importlib.metadata import PackageNotFoundError, distribution

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from tests.support.local import REPOSITORY

LINES = (REPOSITORY / "conf/constraints.txt").read_text().splitlines()
PINS = [Requirement(line) for line in LINES if not line.startswith("#")]


def installed(pin: Requirement) -> SpecifierSet | None:
    """What the pinned release says of Python; None if it is not the one installed here."""
    try:
        found = distribution(pin.name)
    except PackageNotFoundError:
        return None
    is_pinned = pin.specifier.contains(found.version)
    return SpecifierSet(found.metadata["Requires-Python"] or "") if is_pinned else None


@pytest.mark.parametrize("python", ["3.10", "3.11", "3.12", "3.13"])
def test_the_pinned_releases_exist_for_each_python(python: str) -> None:
    pins = [
        pin for pin in PINS if not pin.marker or pin.marker.evaluate({"python_version": python})
    ]

    known = {pin.name: (pin, needs) for pin in pins if (needs := installed(pin)) is not None}

    assert len({pin.name for pin in pins}) == len(pins), "one release of each package"
    assert {"click", "deltalake", "pyspark"} <= known.keys()
    late = f"{python}.20"  # some need a patch release
    assert [str(pin) for pin, needs in known.values() if not needs.contains(late)] == []
