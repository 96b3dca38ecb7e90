"""A statement sets one attribute, so that each stands on a line of its own.

Allowed are the parts of one value, and an exchange: ``taken, self._waiting = self._waiting, []``.
"""

import ast
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
FILES = [file for folder in ("replication", "jobs") for file in (REPOSITORY / folder).rglob("*.py")]


@pytest.mark.parametrize("file", sorted(FILES), ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_no_statement_sets_two_attributes(file: Path) -> None:
    wrong = [
        node.lineno
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Tuple)
        for target in node.targets
        if isinstance(target, ast.Tuple)
        and all(isinstance(part, ast.Attribute) for part in target.elts)
    ]

    assert wrong == [], "two lines"
