"""The shape of the code: imports point one way, pure modules stay pure, files stay small."""

import ast
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
LONGEST_MODULE_LINES = 300

# From the outermost to the innermost; a module imports its own layer and those after it. What is
# not named here is pure.
LAYERS = ("jobs", "app", "flows", "io", "records", "pure")
NAMED = {
    "jobs": "jobs",
    "replication.__main__": "app",
    "replication.app": "app",
    "replication.cli": "app",
    "replication.cli_base": "app",
    "replication.cli_groups": "app",
    "replication.demo": "app",
    "replication.demo_report": "app",
    "replication.flows": "flows",
    "replication.io": "io",
    "replication.records": "records",
}
# Run by setuptools and by nothing of ours.
OUTSIDE = {"replication.jvm.wheel"}


def modules() -> dict[str, Path]:
    """Every module of the product, by its full name."""
    files = (*REPOSITORY.glob("jobs/*.py"), *REPOSITORY.glob("replication/**/*.py"))
    named = {
        ".".join(file.relative_to(REPOSITORY).with_suffix("").parts).removesuffix(".__init__"): file
        for file in files
    }
    return {name: file for name, file in sorted(named.items()) if name not in OUTSIDE}


def layer(module: str) -> str:
    """The layer of a module, by the longest name that leads its own."""
    parts = module.split(".")
    prefixes = (".".join(parts[:end]) for end in range(len(parts), 0, -1))
    return next((NAMED[prefix] for prefix in prefixes if prefix in NAMED), "pure")


def imports(file: Path) -> set[str]:
    """Full names of what a file imports, anywhere in it; relative imports are not used here."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}:{node.lineno}: a relative import"
            found.add(str(node.module))
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return found


def own(names: set[str]) -> set[str]:
    """Those of *names* that are modules of the product."""
    return names & set(MODULES)


MODULES = modules()
PURE = [name for name in MODULES if layer(name) == "pure"]


@pytest.mark.parametrize("module", MODULES)
def test_imports_point_one_way(module: str) -> None:
    upwards = {
        name
        for name in own(imports(MODULES[module]))
        if LAYERS.index(layer(name)) < LAYERS.index(layer(module))
    }

    assert upwards == set(), f"{module} is of layer {layer(module)!r}, of {' -> '.join(LAYERS)}"


@pytest.mark.parametrize("module", PURE)
def test_a_pure_module_needs_only_the_standard_library(module: str) -> None:
    roots = {name.partition(".")[0] for name in imports(MODULES[module])}

    assert roots - sys.stdlib_module_names == roots & {"replication"}


@pytest.mark.parametrize("module", MODULES)
def test_a_module_is_short(module: str) -> None:
    lines = len(MODULES[module].read_text(encoding="utf-8").splitlines())

    assert lines < LONGEST_MODULE_LINES, "two subjects?"


def test_every_layer_has_modules() -> None:
    assert {layer(name) for name in MODULES} == set(LAYERS)
