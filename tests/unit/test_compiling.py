"""When set-up compiles our Java classes: by what is there, not by when it was written."""

import os
import subprocess

import pytest

from tests.support.clone import Clone


def is_compiled(clone: Clone) -> bool:
    """Whether the set-up of *clone* takes its jar for that of its sources."""
    script = 'repo=$1 && source "$repo/conf/set-up.sh" && is_compiled'
    asked = subprocess.run(
        ["bash", "-uc", script, "bash", str(clone.folder)],  # noqa: S607
        env=clone.environment({}),
        check=False,
    )
    return asked.returncode == 0


def test_what_is_compiled_is_not_compiled_again(ready: Clone) -> None:
    for source in ready.folder.glob("replication/jvm/**/*.java"):
        os.utime(source)  # as after a checkout of the same commit

    assert is_compiled(ready)


@pytest.mark.parametrize(
    "name",
    [
        "replication/jvm/Acknowledgements.java",
        "replication/jvm/producer/PreserveTimestamps.java",
        "replication/jvm/replication.jar",
        "conf/jars.xml",
    ],
)
def test_an_older_date_hides_no_change(ready: Clone, name: str) -> None:
    changed = ready.folder / name
    with changed.open("ab") as file:
        file.write(b"<!-- changed -->\n")
    os.utime(changed, (0, 0))

    assert not is_compiled(ready)


@pytest.mark.parametrize("name", ["replication.jar", "replication.jar.sum"])
def test_half_of_a_compiled_jar_is_none(ready: Clone, name: str) -> None:
    (ready.folder / "replication" / "jvm" / name).unlink()

    assert not is_compiled(ready)
