"""Holds the jars that set-up has fetched to the list of their digests, ``conf/jars.sha256``.

    python replication/deploy/digests.py LIST CONFIGURATION FOLDER [--renew]

A line of the list is a digest and ``CONFIGURATION/FILE``. With --renew the configuration's lines
become those of the folder. Ivy compares only with digests from the same place as the jar.
"""

import hashlib
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

RENEW: Final = "--renew"


def read(listing: Path) -> dict[str, str]:
    """Reads the digest of each ``CONFIGURATION/FILE`` in *listing*; empty without a list."""
    lines = listing.read_text(encoding="ascii").splitlines() if listing.exists() else []
    return {name: digest for digest, name in (line.split("  ", 1) for line in lines if line)}


def of_folder(configuration: str, folder: Path) -> dict[str, str]:
    """Returns the digest of each file in *folder*."""
    return {
        f"{configuration}/{file.name}": hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(folder.iterdir())
    }


def problem(listed: Mapping[str, str], found: Mapping[str, str]) -> str:
    """Returns what differs, in one line; empty if nothing does."""
    unlisted, missing = found.keys() - listed.keys(), listed.keys() - found.keys()
    other = {name for name in listed.keys() & found.keys() if listed[name] != found[name]}
    kinds = ((other, "another digest"), (unlisted, "not listed"), (missing, "not fetched"))
    return "; ".join(f"{text}: {_some(names)}" for names, text in kinds if names)


def _some(names: Iterable[str]) -> str:
    first, *rest = sorted(names)
    return f"{first} and {len(rest)} more" if rest else first


def main(listing: str, configuration: str, folder: str, *options: str) -> int:
    """Checks the folder, or renews its lines, and returns the exit code."""
    known = read(Path(listing))
    found = of_folder(configuration, Path(folder))
    mine = {name for name in known if name.startswith(f"{configuration}/")}
    if RENEW in options:
        others = {name: digest for name, digest in known.items() if name not in mine}
        lines = [f"{digest}  {name}\n" for name, digest in sorted({**others, **found}.items())]
        Path(listing).write_text("".join(lines), encoding="ascii")
        return 0
    differs = problem({name: known[name] for name in mine}, found)
    print(differs, end="")  # noqa: T201
    return 1 if differs else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
