"""A function is read in one look: few lines, few parameters."""

import ast
from collections.abc import Iterator

from tests.support.local import REPOSITORY

LONGEST = 40
"""Lines of a function without its docstring and decorators, which are the options of a command."""

MOST = 6
"""Parameters of a function. What a caller may leave out and must name does not count, nor what a
framework passes: the options of a command, the parts of a request. Nobody mixes them up."""

FOLDERS = ("replication", "jobs")


def functions() -> Iterator[tuple[str, ast.FunctionDef]]:
    """Each function of the product, with its place."""
    for folder in FOLDERS:
        for path in sorted((REPOSITORY / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.FunctionDef):
                    yield f"{path.relative_to(REPOSITORY)}: {node.name}", node


def lines_of(function: ast.FunctionDef) -> int:
    """Its lines that count."""
    first = function.body[0]
    documented = 0
    if ast.get_docstring(function, clean=False) is not None:
        documented = (first.end_lineno or 0) - first.lineno + 1
    within = (node for node in ast.walk(function) if isinstance(node, ast.FunctionDef))
    decorated = sum(
        node.lineno - node.decorator_list[0].lineno
        for node in within
        if node.decorator_list and node is not function
    )
    return (function.end_lineno or 0) - function.lineno + 1 - documented - decorated


def parameters_of(function: ast.FunctionDef) -> int:
    """How many parameters count."""
    decorators = [ast.unparse(decorator) for decorator in function.decorator_list]
    if any(framework in decorator for decorator in decorators for framework in ("click", "router")):
        return 0
    given = function.args
    names = [argument.arg for argument in (*given.posonlyargs, *given.args)]
    required = [default for default in given.kw_defaults if default is None]
    return len(names) + len(required) - (names[:1] in (["self"], ["cls"]))


def test_a_function_is_short() -> None:
    found = dict(functions())

    assert found
    assert [name for name, function in found.items() if lines_of(function) > LONGEST] == []


def test_a_function_has_few_parameters() -> None:
    found = dict(functions())

    assert [name for name, function in found.items() if parameters_of(function) > MOST] == []


def test_what_counts_of_a_function() -> None:
    code = 'class A:\n def f(self, a, b=1, *, c, d=2):\n  """Does\n\n  it."""\n  return a'
    (function,) = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.FunctionDef)]

    assert (lines_of(function), parameters_of(function)) == (2, 3)
