"""Jars are held to a list of their digests."""

from hashlib import sha256
from pathlib import Path

import pytest

from replication.deploy.digests import RENEW, main


@pytest.fixture
def jars(tmp_path: Path) -> Path:
    folder = tmp_path / "jars"
    folder.mkdir()
    for name in ("a-1.jar", "b-2.jar"):
        (folder / name).write_text(name)
    return folder


@pytest.fixture
def listing(jars: Path, tmp_path: Path) -> Path:
    """The list of the jars as they are, and a line of another configuration."""
    listing = tmp_path / "jars.sha256"
    listing.write_text(f"{'0' * 64}  other/x-1.jar\n")
    assert main(str(listing), "spark", str(jars), RENEW) == 0
    return listing


def test_the_list_is_renewed_for_one_configuration(listing: Path) -> None:
    assert listing.read_text().splitlines() == [
        f"{'0' * 64}  other/x-1.jar",
        f"{sha256(b'a-1.jar').hexdigest()}  spark/a-1.jar",
        f"{sha256(b'b-2.jar').hexdigest()}  spark/b-2.jar",
    ]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({}, ""),
        ({"a-1.jar": "forged"}, "another digest: spark/a-1.jar"),
        ({"a-1.jar": "x", "b-2.jar": "x"}, "another digest: spark/a-1.jar and 1 more"),
        ({"c-3.jar": "c-3.jar"}, "not listed: spark/c-3.jar"),
        ({"a-1.jar": ""}, "not fetched: spark/a-1.jar"),
        (
            {"a-1.jar": "", "a-2.jar": "a-1.jar"},
            "not listed: spark/a-2.jar; not fetched: spark/a-1.jar",
        ),
    ],
)
def test_what_differs_is_said_in_a_line(
    change: dict[str, str], said: str, listing: Path, jars: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, text in change.items():
        if text:
            (jars / name).write_text(text)
        else:
            (jars / name).unlink()

    code = main(str(listing), "spark", str(jars))

    assert (code, capsys.readouterr().out) == (1 if said else 0, said)


def test_without_a_list_nothing_is_taken(
    tmp_path: Path, jars: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(str(tmp_path / "none"), "spark", str(jars)) == 1
    assert capsys.readouterr().out == "not listed: spark/a-1.jar and 1 more"
