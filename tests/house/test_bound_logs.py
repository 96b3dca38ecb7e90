"""The flow of a line is bound to its log, so a call names the event and its own facts only."""

import ast
from pathlib import Path

import pytest

PRODUCT = Path(__file__).parents[2] / "replication"
LEVELS = {"debug", "info", "warning", "error", "exception"}


@pytest.mark.parametrize(
    "file", sorted(PRODUCT.rglob("*.py")), ids=lambda path: str(path.relative_to(PRODUCT))
)
def test_no_call_of_a_log_names_the_flow(file: Path) -> None:
    wrong = [
        node.lineno
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in LEVELS
        and any(keyword.arg == "flow" for keyword in node.keywords)
    ]

    assert wrong == [], "log.bind(flow), or the log of the flow's context"
