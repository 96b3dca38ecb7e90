"""A function's docstring begins with a verb in the third person, as in "Returns the sum"."""

import ast
import re
from collections.abc import Iterator

import pytest

from tests.support.local import REPOSITORY

FILES = sorted(
    path for folder in ("replication", "jobs") for path in (REPOSITORY / folder).rglob("*.py")
)

#: A verb in the third person ends in "s", but so do these words, which are not verbs.
NOT_VERBS = {
    "Always",
    "As",
    "Bytes",
    "Consumers",
    "Distances",
    "Executors",
    "Expressions",
    "Heartbeats",
    "Its",
    "Names",
    "Options",
    "Paths",
    "Properties",
    "Seconds",
    "Tasks",
    "This",
    "Topics",
    "Values",
}


def decorators(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """Returns the decorators' names: ``cached_property``, ``click.command``, ``key.setter``."""
    return {ast.unparse(each).split("(")[0] for each in function.decorator_list}


def is_noun(names: set[str]) -> bool:
    """Returns whether the docstring names a value (a property) or is a command's help text."""
    return any(name.endswith(("property", ".setter", ".command", ".group")) for name in names)


def without_verb(source: str) -> Iterator[str]:
    """Yields name and summary of each function whose docstring does not begin with a verb."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        text = ast.get_docstring(node)
        if text is None or is_noun(decorators(node)):
            continue
        first = text.split()[0].rstrip(",;")
        if not re.fullmatch("[A-Z][a-z]*s", first) or first in NOT_VERBS:
            yield f"{node.name}: {text.splitlines()[0]}"


def test_each_docstring_of_a_function_begins_with_a_verb() -> None:
    found = [
        f"{path.relative_to(REPOSITORY)}: {each}"
        for path in FILES
        for each in without_verb(path.read_text())
    ]

    assert FILES
    assert found == []


@pytest.mark.parametrize("text", ["The sum.", "Whether so.", "Return it.", "As `f`.", "*x* as y."])
def test_a_docstring_without_a_verb_is_found(text: str) -> None:
    function = f'def f() -> int:\n    """{text}"""\n'

    assert list(without_verb(function)) == [f"f: {text}"]
    assert list(without_verb("@cached_property\n" + function)) == []
