"""What the tests have in common is in tests/support: no test imports another test."""

import ast
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
FILES = {file.relative_to(TESTS).as_posix(): file for file in sorted(TESTS.rglob("*.py"))}


def imported_folders(file: Path) -> set[str]:
    """The folders of tests/ from which *file* imports; a file beside them has its own name."""
    nodes = list(ast.walk(ast.parse(file.read_text())))
    names = [
        *(name.name for node in nodes if isinstance(node, ast.Import) for name in node.names),
        *(node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)),
    ]
    return {name.split(".")[1] for name in names if name.startswith("tests.")}


@pytest.mark.parametrize("file", FILES)
def test_no_file_imports_a_test(file: str) -> None:
    allowed = {"support"}
    for programs in ("bench", "soak"):  # unit tests also check these programs themselves
        if file.startswith((f"{programs}/", "unit/", "house/")):
            allowed.add(programs)

    assert imported_folders(FILES[file]) - allowed == set()
