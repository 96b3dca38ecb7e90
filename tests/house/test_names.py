"""A name of a class means one thing in the product, so that an import says what comes in."""

import ast
from collections import Counter
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
PRODUCT = REPOSITORY / "replication"


def test_no_two_public_classes_have_one_name() -> None:
    names = Counter(
        node.name
        for file in PRODUCT.rglob("*.py")
        for node in ast.parse(file.read_text()).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )

    assert names
    assert [name for name, times in names.items() if times > 1] == []


def test_no_variable_is_called_it() -> None:
    files = {
        file: ast.parse(file.read_text())
        for folder in (PRODUCT, REPOSITORY / "jobs", REPOSITORY / "tests")
        for file in folder.rglob("*.py")
    }
    wrong = [
        f"{file.relative_to(REPOSITORY)}:{getattr(node, 'lineno', 0)}"
        for file, tree in files.items()
        for node in ast.walk(tree)
        if "it" in {getattr(node, "id", ""), getattr(node, "arg", ""), getattr(node, "asname", "")}
    ]

    assert files
    assert wrong == [], "name the thing"
