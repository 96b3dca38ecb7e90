"""Files with anything in them, by chance: each is read, or refused with problems, and nothing else.

Every error but a ConfigError would reach an operator as a traceback.
"""

# ruff: noqa: PT017, S311  # an error is one of two results; chance is seeded to be repeatable

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from replication.config.client_keys import JAVA_KEYS
from replication.config.file import load
from replication.config.ignored import CHAINS, IGNORED, NEVER, REMOVED
from replication.config.keys import KEYS
from replication.errors import ConfigError
from replication.features.mm2_import import converted

FILES = [file.read_text() for file in sorted((Path(__file__).parents[1] / "files").iterdir())]
HEAD = "clusters=A,B\nA.bootstrap.servers=a:1\nB.bootstrap.servers=b:1\nA->B.enabled=true\n"
NAMES = sorted(
    {*KEYS, *IGNORED, *NEVER, *REMOVED, *(key.removeprefix("A->B.") for key in CHAINS), *JAVA_KEYS}
)
SCOPES = (
    *("", "A.", "B.", "C.", "A->B.", "B->A.", "A->A.", "A.consumer.", "B.producer.", "workers."),
    *("B.producer.override.", "source.cluster.", "connectors.", "A->B.source.consumer."),
)
VALUES = (
    *("", "x", "1", "-1", "true", "a,b", ".*", "(", "99999999999", "${env:NO}", "${file:/a\0b}"),
    *("${file:/etc/none:x}", "SASL_SSL", "a:1", "é", "\x07", "'", "[", "{a: b}"),
)
ODD = (
    *(
        "\0",
        "\xff",
        "->",
        "=",
        ":",
        "${",
        "}",
        "\\",
        "\\u12",
        "\n",
        " ",
        "\t",
        "<<: *a",
        "&a ",
        "*a",
    ),
    *("[", "]", "{", "'", '"', "(a+)+", "[[", "9" * 30, "\u202e", "\x1b[2J", "---\n", "? ", "| "),
    *("!!python/object:x ", "connectors.", "topics.blacklist=", "config.providers=x\n", "%"),
)


def odd_files(count: int) -> Iterator[str]:
    chance = random.Random(13)
    for number in range(count):
        if number % 2:
            text = chance.choice(FILES)
            for _ in range(chance.randint(1, 6)):
                at = chance.randint(0, len(text))
                dropped = chance.choice((0, 0, chance.randint(1, 30)))
                text = text[:at] + chance.choice(ODD) + text[at + dropped :]
        else:
            sign = chance.choice(("=", ": "))
            text = HEAD.replace("=", sign)
            for _ in range(chance.randint(1, 8)):
                key = chance.choice(SCOPES) + chance.choice(NAMES)
                text += f"{key}{sign}{chance.choice(VALUES)}\n"
        yield text


@pytest.mark.parametrize("name", ["c.yaml", "c.properties"])
def test_an_odd_file_is_read_or_refused(tmp_path: Path, name: str) -> None:
    file, outcomes = tmp_path / name, set[str]()
    for text in odd_files(300):
        file.write_text(text, encoding="utf-8")
        try:
            load(file, environ={}, default_state_dir="/state")
            outcomes.add("read")
        except ConfigError as error:
            assert all(char.isprintable() for char in str(error).replace("\n", "")), text
            outcomes.add("refused")
        try:
            printed = converted(str(file))
            assert all(char.isprintable() for char in printed.replace("\n", "")), text
        except ConfigError:
            outcomes.add("not converted")
    assert outcomes == {"read", "refused", "not converted"}, "too little variety"
