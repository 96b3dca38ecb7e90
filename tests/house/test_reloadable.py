"""Which keys a running flow reads anew each turn, and that it keeps nothing of them."""

import ast
from collections.abc import Iterator
from typing import get_type_hints

from replication.config.config_key import ConfigKey, declared_keys
from replication.config.keys import KEYS
from replication.config.tree import FlowConfig
from tests.support.local import REPOSITORY

FLOWS = REPOSITORY / "replication" / "flows"
PAGE = REPOSITORY / "conf" / "docs" / "change.md"
SECTION = "## Keys that are read anew each turn"


def reloadable_fields() -> set[str]:
    """Fields with reloadable keys, as code reads them from a flow's configuration."""
    sections = {"": FlowConfig} | {
        f"{name}.": hint
        for name, hint in get_type_hints(FlowConfig).items()
        if isinstance(hint, type) and declared_keys_or_none(hint)
    }
    return {
        f"{prefix}{field}"
        for prefix, section in sections.items()
        for field, declared in declared_keys(section).items()
        for key in declared
        for each in ([key] if isinstance(key, ConfigKey) else key.values())
        if each.is_reloadable
    }


def declared_keys_or_none(section: type) -> bool:
    """Whether *section* declares a key at all."""
    return section.__module__.endswith("_settings") and any(declared_keys(section).values())


def kept(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """What the constructors of *tree* take from ``context.config``: line, and field or ``all``."""
    constructors = (
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.name == "__init__"
    )
    for constructor in constructors:
        names = {"context.config"} | {
            target.id
            for node in ast.walk(constructor)
            if isinstance(node, ast.Assign) and ast.unparse(node.value) == "context.config"
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        for node in ast.walk(constructor):
            if isinstance(node, ast.Attribute):
                text = ast.unparse(node)
                for name in names:
                    if text.startswith(f"{name}."):
                        yield node.lineno, text.removeprefix(f"{name}.")
            is_kept = isinstance(node, ast.Assign) and not isinstance(node.targets[0], ast.Name)
            if isinstance(node, ast.Assign) and is_kept and ast.unparse(node.value) in names:
                yield node.lineno, "all"


def test_no_constructor_of_a_flow_keeps_what_is_read_anew_each_turn() -> None:
    fields = reloadable_fields()
    files = {str(path.relative_to(REPOSITORY)): path for path in FLOWS.rglob("*.py")}
    wrong = [
        f"{name}:{line}: {field}"
        for name, path in files.items()
        for line, field in kept(ast.parse(path.read_text(encoding="utf-8")))
        if field == "all" or field in fields
    ]

    assert {"topics", "groups.groups", "guard.policies"} <= fields
    assert wrong == []


def test_a_constructor_that_keeps_the_configuration_is_found() -> None:
    code = (
        "class A:\n def __init__(self, context):\n  config = context.config\n"
        "  self._all = config\n  self._topics = config.groups.groups\n"
    )

    assert {field for _, field in kept(ast.parse(code))} >= {"all", "groups.groups"}


def test_the_page_lists_the_keys_that_are_read_anew_each_turn() -> None:
    section = PAGE.read_text(encoding="utf-8").partition(SECTION)[2].partition("\n##")[0]
    listed = [
        word
        for line in section.splitlines()
        if line.startswith("- ")
        for word in line[2:].split(", ")
    ]

    assert [name.strip("`") for name in listed] == [
        key.name for key in KEYS.values() if key.is_reloadable
    ]


def test_what_is_only_read_at_the_start_is_not_called_reloadable() -> None:
    at_start = {"clusters", "enabled", "replication.mode", "state.dir", "replication.policy.class"}

    assert not [name for name in at_start if KEYS[name].is_reloadable]
    assert not [key.name for key in KEYS.values() if key.kind == "java class" and key.is_reloadable]
