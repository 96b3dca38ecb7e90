"""Each pinned release runs on every Python that set-up takes, and each of its files is known."""

import re
from collections import defaultdict
from importlib.metadata import PackageNotFoundError, distribution

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from replication.deploy.digests import read
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


LOCKS = ("build", "spark", "dev", "bench", "docker", "site", "serve")


def locked(name: str) -> dict[str, int]:
    """Each release in a lock, as a constraint, and of how many files the digest is known."""
    found: dict[str, int] = defaultdict(int)
    release = ""
    for line in (REPOSITORY / f"conf/lock/{name}.txt").read_text().splitlines():
        if line.startswith("    --hash=sha256:"):
            assert re.fullmatch(r"    --hash=sha256:[0-9a-f]{64}( \\)?", line), line
            found[release] += 1
        else:
            assert line.endswith(" \\"), f"{line} has no digest"
            release = line.removesuffix(" \\")
            found[release] = 0
    return found


def pinned(pins: list[Requirement]) -> set[tuple[str, str]]:
    return {(canonicalize_name(pin.name), str(pin.specifier)) for pin in pins}


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_has_the_pinned_releases_with_a_digest_of_each_file(lock: str) -> None:
    found = locked(lock)

    assert min(found.values()) > 0
    assert pinned([Requirement(release) for release in found]) <= pinned(PINS)


def test_every_pinned_release_is_locked() -> None:
    releases = [Requirement(release) for lock in LOCKS for release in locked(lock)]

    assert pinned(PINS) == pinned(releases), "conf/renew-locks.sh packages brings them together"


def test_every_jar_that_is_named_has_a_digest() -> None:
    listed = read(REPOSITORY / "conf/jars.sha256")
    text = (REPOSITORY / "conf/jars.xml").read_text()
    named = re.findall(r'name="([\w.-]+)" rev="([\w.-]+)" conf="(\w+)->', text)

    assert len(named) >= 17
    for artifact, revision, configuration in named:
        prefix = f"{configuration}/{artifact}-{revision}"
        assert [name for name in listed if name.startswith(prefix)], f"{prefix} is not listed"
    assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in listed.values())
