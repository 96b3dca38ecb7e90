"""The shape of the code: imports point downwards, folders keep their libraries."""

import ast
import sys
from collections.abc import Set as AbstractSet
from functools import cache
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]

# From the top: a folder imports itself and what stands in a later row; folders of one row do not
# know each other. replication/README.md names the floors.
STOREYS = (
    {"jobs", "__main__"},
    {"features"},
    {"cli"},
    {"app", "demo", "deploy", "serve"},
    {"flows", "control"},
    {"positions", "upkeep"},
    {"state"},
    {"kafka", "spark", "topics", "groups", "metrics"},
    {"config", "figures", "offsets"},
    {"mm2", "schemas"},
    {"model", "errors", "log", "java", "foreign_json"},
    {"backoff", "log_events"},
)
# A folder that is not named here needs the standard library only.
LIBRARIES = {
    "features": {"click", "py4j", "yaml"},
    "cli": {"click", "rich"},
    "app": {"pyspark", "py4j"},
    "serve": {"anyio", "fastapi", "jinja2", "pydantic", "starlette", "uvicorn"},
    "flows": {"pyspark", "py4j"},
    "positions": {"pyspark", "py4j"},
    "state": {"pyspark", "py4j", "deltalake", "arro3", "obstore"},
    "spark": {"pyspark", "py4j"},
    "kafka": {"confluent_kafka", "pyspark", "py4j"},
    "config": {"yaml"},
    "java": {"py4j"},
    "metrics": {"prometheus_client"},
    "demo": {"confluent_kafka", "rich", "yaml", "pyspark"},
}
# The modules of a folder that others may import; the rest of it is private. Where no folder is
# named, all of its modules are open: rules, and what an operator asks.
DOORS = {
    "app": {"process", "run"},
    "features": set(),  # only a name in the table of commands leads to one
    "cli": {"jobs", "main", "options"},
    "demo": {"play"},
    "deploy": {"arguments"},
    "serve": {"run", "tokens"},
    "flows": {
        "checkpoints",
        "context",
        "flow_metrics",
        "heartbeats",
        "metadata",
        "observe.clocks",
        "observe.flow_observer",
        "observe.observer",
        "outages",
        "publisher",
        "replicate.generations",
        "replicate.loop",
        "run_summary",
        "supervised",
    },
    "positions": {
        "compare",
        "expire",
        "find",
        "flow_clients",
        "measure",
        "originals",
        "place",
        "refine",
        "survey",
    },
    "upkeep": {"faults", "groups", "prepare", "schemas", "settings"},
    "state": {
        "change_files",
        "claim",
        "cluster_ids",
        "dead_letters",
        "engine_mark",
        "executions",
        "figures_table",
        "folder",
        "lease",
        "locks",
        "maintenance",
        "offset_table",
        "readers",
        "requests",
        "schema_rows",
        "storage",
        "table_reader",
        "tables",
    },
    "kafka": {
        "acls",
        "api",
        "cluster",
        "consumer_groups",
        "diagnosis",
        "internal_topic",
        "java_admin",
        "jvm",
        "ownership",
        "reach",
        "reader",
        "registry",
        "single_record",
        "status_topic",
        "watch",
    },
    "config": {
        "changes",
        "checks",
        "client_keys",
        "field_keys",
        "file",
        "flat",
        "group_settings",
        "home",
        "keys",
        "limits",
        "metrics_settings",
        "schema_settings",
        "scopes",
        "state_access",
        "topic_settings",
        "transforms",
        "tree",
        "values",
    },
    "mm2": {"filters", "policy", "single_message_transforms", "status_records", "wire"},
}
# Run by setuptools and by nothing of ours.
OUTSIDE = {"replication.jvm.wheel", "replication.jvm", "replication"}


def modules() -> dict[str, Path]:
    """Every module of the product, by its full name."""
    files = (*REPOSITORY.glob("jobs/*.py"), *REPOSITORY.glob("replication/**/*.py"))
    named = {
        ".".join(file.relative_to(REPOSITORY).with_suffix("").parts).removesuffix(".__init__"): file
        for file in files
    }
    return {name: file for name, file in sorted(named.items()) if name not in OUTSIDE}


def folder(module: str) -> str:
    """``replication.config.client_keys`` is of config, ``jobs.mirror`` of jobs."""
    top, *rest = module.split(".")
    return rest[0] if top == "replication" and rest else top


def feature(module: str) -> str:
    """``replication.features.doctor.host`` is of doctor."""
    return module.removeprefix("replication.features.").partition(".")[0]


@cache
def imports(file: Path) -> frozenset[str]:
    """Full names of what a file imports, anywhere in it; relative imports are not used here."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}:{node.lineno}: a relative import"
            found.add(str(node.module))
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return frozenset(found)


def own(names: AbstractSet[str]) -> AbstractSet[str]:
    """Those of *names* that are modules of the product."""
    return names & set(MODULES)


def is_door(module: str) -> bool:
    """Whether other folders may import *module*."""
    _, _, door = module.removeprefix("replication.").partition(".")
    return not door or folder(module) not in DOORS or door in DOORS[folder(module)]


def loaded_by(module: str) -> set[str]:
    """The modules of the product that importing *module* loads, itself included."""
    loaded, waiting = set(), [module]
    while waiting:
        name = waiting.pop()
        if name not in loaded:
            loaded.add(name)
            waiting.extend(own(imports(MODULES[name])))
    return loaded


MODULES = modules()
ROW = {name: row for row, storey in enumerate(STOREYS) for name in storey}


@pytest.mark.parametrize("module", MODULES)
def test_a_folder_imports_only_what_stands_below_it(module: str) -> None:
    mine = folder(module)
    below = set().union(*STOREYS[ROW[mine] + 1 :])

    assert {folder(name) for name in own(imports(MODULES[module]))} - {mine} - below == set()


@pytest.mark.parametrize("module", MODULES)
def test_a_folder_is_entered_by_its_doors(module: str) -> None:
    entered = {name for name in own(imports(MODULES[module])) if folder(name) != folder(module)}

    private = {name for name in entered if not is_door(name)}
    assert private == set(), "ask a door of that folder, or make it one in DOORS"


@pytest.mark.parametrize(
    "door",
    [f"replication.{name}.{door}" for name, doors in DOORS.items() for door in sorted(doors)],
)
def test_a_door_is_used(door: str) -> None:
    users = [name for name in MODULES if door in imports(MODULES[name])]

    assert any(folder(name) != folder(door) for name in users), "private, then"


@pytest.mark.parametrize("module", MODULES)
def test_a_folder_uses_its_own_libraries_only(module: str) -> None:
    roots = {name.partition(".")[0] for name in imports(MODULES[module])}

    # typing_extensions is for mypy alone, which brings it
    foreign = roots - sys.stdlib_module_names - {"replication", "typing_extensions"}
    assert foreign - LIBRARIES.get(folder(module), set()) == set()


@pytest.mark.parametrize("module", [name for name in MODULES if folder(name) == "features"])
def test_a_feature_knows_no_other_feature(module: str) -> None:
    others = {feature(name) for name in own(imports(MODULES[module])) if folder(name) == "features"}

    assert others <= {feature(module)}


def test_only_the_modules_behind_the_seam_know_the_types_of_confluent_kafka() -> None:
    knowing = {name for name in MODULES if "confluent_kafka" in imports(MODULES[name])}

    of_product = {name for name in knowing if folder(name) != "demo"}
    assert of_product == {"replication.kafka.confluent"}


@pytest.mark.parametrize("job", [name for name in MODULES if folder(name) == "jobs"])
def test_a_job_does_not_load_the_demo(job: str) -> None:
    loaded = {folder(name) for name in loaded_by(job)}

    assert "demo" not in loaded
    assert "app" in loaded


def test_every_folder_stands_on_a_floor() -> None:
    assert {folder(name) for name in MODULES} == set(ROW)
