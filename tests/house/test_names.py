"""A name of a class means one thing in the product, so that an import says what comes in."""

import ast
from collections import Counter
from pathlib import Path

PRODUCT = Path(__file__).parents[2] / "replication"


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
        str(file.relative_to(PRODUCT)): ast.parse(file.read_text())
        for file in PRODUCT.rglob("*.py")
    }
    wrong = [
        f"{name}:{node.lineno}"
        for name, tree in files.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and node.id == "it"
    ]

    assert wrong == [], "name the thing"
