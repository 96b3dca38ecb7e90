"""Reads the repository's Markdown files: code, links, headings and tables."""

import re
import shlex
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

from tests.support.local import REPOSITORY

FOLDERS = (".ci", "conf", "jobs", "replication", "tests")

README = REPOSITORY / "README.md"
CONFIGURATION = REPOSITORY / "conf" / "README.md"
TABLES = REPOSITORY / "conf" / "docs" / "tables.md"
EXITS = REPOSITORY / "conf" / "docs" / "watch.md"
LOG_EVENTS = REPOSITORY / "conf" / "docs" / "log-events.md"
SCHEMA_IDS = REPOSITORY / "conf" / "docs" / "schemas.md"
CHANGE = REPOSITORY / "conf" / "docs" / "change.md"
ARCHITECTURE = REPOSITORY / "replication" / "README.md"

OPTION = re.compile(r"--[a-z][a-z-]*")
SPAN = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"(?<!!)\[[^]\n]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def documents() -> list[Path]:
    """Every Markdown file of the repository."""
    found = [README, *(file for name in FOLDERS for file in (REPOSITORY / name).rglob("*.md"))]
    return sorted(found)


def label(file: Path) -> str:
    """A file's name in the list of tests and in messages."""
    return str(file.relative_to(REPOSITORY))


def text_of(file: Path) -> str:
    """A file's text."""
    return file.read_text(encoding="utf-8")


def prose(text: str) -> str:
    """*text* without fenced blocks."""
    return FENCED.sub("", text)


def blocks(file: Path, language: str) -> list[str]:
    """The fenced blocks of *language* in a document."""
    return [block for name, block in FENCED.findall(text_of(file)) if name == language]


def anchors(text: str) -> set[str]:
    """The names by which GitHub links to the headings of *text*."""
    return {
        re.sub(r"[^\w -]", "", heading.lower()).strip().replace(" ", "-")
        for heading in HEADING.findall(prose(text))
    }


def code_lines(text: str) -> Iterator[str]:
    """Every line of code in *text*, indented or inline."""
    for line in prose(text).splitlines():
        if line.startswith("    "):
            yield line.strip()
        else:
            yield from SPAN.findall(line)


def calls(program: str) -> list[tuple[str, list[str]]]:
    """Where *program* is called in the documents, and with which arguments; comments taken off."""
    found = []
    for file in documents():
        for line in code_lines(text_of(file)):
            _, at, arguments = line.partition(f"{program} ")
            if at:
                found.append((f"{label(file)}: {line}", shlex.split(arguments, comments=True)))
    return found


def table(file: Path, first: str) -> list[list[str]]:
    """The rows of every table in a document whose first heading is *first*, as cells."""
    rows: list[list[str]] = []
    lines = text_of(file).splitlines()
    for number, line in enumerate(lines):
        if line.startswith(f"| {first} |"):
            body = takewhile(lambda row: row.startswith("|"), lines[number + 2 :])
            rows += [[cell.strip() for cell in row.strip("|").split("|")] for row in body]
    return rows
