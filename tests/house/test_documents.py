"""The documents say what the code does: links, commands, options, keys, defaults and tables."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import get_args

import click
import pytest

from replication import errors
from replication.cli.main import main
from replication.config.client_keys import JAVA_KEYS
from replication.config.client_properties import client_property
from replication.config.file import load
from replication.config.ignored import IGNORED, REMOVED
from replication.config.keys import KEYS
from replication.log_events import Event
from replication.model import EventKind, Reaction
from replication.state.executions import Ending
from replication.state.schemas import SCHEMAS
from tests.bench.options import parsed
from tests.support.documents import (
    ARCHITECTURE,
    CHANGE,
    CONFIGURATION,
    EXITS,
    FOLDERS,
    LINK,
    LOG_EVENTS,
    OPTION,
    README,
    SCHEMA_IDS,
    SPAN,
    TABLES,
    anchors,
    blocks,
    calls,
    documents,
    label,
    prose,
    table,
    text_of,
)
from tests.support.local import REPOSITORY

README_LINES = 119
_CONTEXT = click.Context(main)
COMMANDS = {
    name: command
    for name in main.list_commands(_CONTEXT)
    if (command := main.get_command(_CONTEXT, name))
}
LINE_CHARACTERS = 120
LEVELS = {  # of the methods of a log
    **{name: name.upper() for name in ("debug", "info", "warning", "error")},
    "exception": "ERROR",
}
LOG = re.compile(r"\blog(ger)?\Z|\blog\.bind\(.*\)\Z")
ONCE = {"say", "_log_once"}  # methods of ours that log a warning

# Written apart, so that this file does not hold them.
OUTSIDE_DOCUMENTS = tuple(
    f"{name}.md" for name in ("design", "deploy", "features", "house", "mm2", "spark", "style")
)
DECISION_NUMBER = re.compile(r"\bD(?:[1-9]|1[0-5])\b(?![-.\w])")
TEXT = {"", ".cfg", ".java", ".md", ".properties", ".py", ".sh", ".toml", ".txt", ".xml", ".yaml"}

# Of programs that the documents name beside our own.
FOREIGN_OPTIONS = {
    *("--archives", "--conf", "--driver-class-path", "--driver-java-options", "--executor-memory"),
    *("--files", "--jars", "--packages"),
    *("--keytab", "--principal", "--properties-file", "--py-files"),  # spark-submit's
    *("--clusters", "--command-config"),  # Kafka's tools'
}
FOREIGN_COMMANDS = ("srm-control", "kafka-consumer-groups", "hadoop fs", "yarn ")


def options_of(command: click.Command) -> set[str]:
    """The options that *command* takes, or any of its own commands."""
    below = command.commands.values() if isinstance(command, click.Group) else ()
    own = {name for parameter in command.params for name in parameter.opts} | {"--help"}
    return own.union(*map(options_of, below))


def script_options() -> set[str]:
    """The options that spark-submit.sh takes."""
    script = text_of(REPOSITORY / "spark-submit.sh")
    parsing = script[script.index("\nmain() {") : script.index("\nset_up_only() {")]
    return set(OPTION.findall(parsing)) | {"--help"}


def is_client_key(name: str) -> bool:
    """Whether *name* is a client property of cluster A or B, or of a flow between them."""
    scope, _, rest = name.partition(".")
    return scope in {"A", "B", "A->B"} and (rest in JAVA_KEYS or client_property(rest) is not None)


def test_the_readme_is_short() -> None:
    assert len(text_of(README).splitlines()) <= README_LINES


@pytest.mark.parametrize("file", documents(), ids=label)
def test_the_lines_of_a_document_fit_the_screen(file: Path) -> None:
    lines = text_of(file).splitlines()
    wide = "|" if file != README else "\0"  # a wide table is read rendered

    assert [line for line in lines if len(line) > LINE_CHARACTERS and line[0] != wide] == []


@pytest.mark.parametrize("file", documents(), ids=label)
def test_every_relative_link_leads_somewhere(file: Path) -> None:
    broken = []
    for link in LINK.findall(prose(text_of(file))):
        path, _, anchor = link.partition("#")
        if "://" in path:
            continue
        target = (file.parent / path).resolve() if path else file
        page = target / "README.md" if target.is_dir() else target
        is_there = target.exists() and target.is_relative_to(REPOSITORY)
        if not is_there or (anchor and anchor not in anchors(text_of(page))):
            broken.append(link)

    assert broken == []


def test_every_command_of_the_documents_exists_with_its_options() -> None:
    found = calls("python -m replication")

    wrong = []
    for where, (name, *arguments) in found:
        used = {OPTION.findall(word)[0] for word in arguments if OPTION.match(word)}
        command = COMMANDS.get(name)
        if command is None or not used <= options_of(command):
            wrong.append(where)
    assert wrong == []
    assert len(found) > len(COMMANDS), "the search finds too little"


def test_every_command_is_documented() -> None:
    named = {arguments[0] for _, arguments in calls("python -m replication")}

    assert set(COMMANDS) - named == {"demo"}  # which spark-submit.sh starts


def test_every_call_of_the_script_uses_its_options() -> None:
    found = calls("./spark-submit.sh")

    wrong = []
    for where, arguments in found:
        own = takewhile(lambda word: word != "--", arguments)
        if not {word for word in own if OPTION.fullmatch(word)} <= script_options():
            wrong.append(where)
    assert wrong == []
    assert len(found) > 10, "the search finds too little"


def test_every_call_of_the_benchmark_uses_its_options() -> None:
    found = [arguments for _, arguments in calls("./tests/bench/run.sh")]

    for arguments in found:
        if arguments != ["--help"]:
            parsed(arguments, "")  # ends the program if one is unknown
    assert found


@pytest.mark.parametrize("file", documents(), ids=label)
def test_every_option_named_in_a_sentence_exists(file: Path) -> None:
    known = script_options() | FOREIGN_OPTIONS
    known |= set(OPTION.findall(text_of(REPOSITORY / "tests" / "run.sh")))
    known |= {name for command in COMMANDS.values() for name in options_of(command)}
    for programs in ("bench", "soak"):
        for program in (REPOSITORY / "tests" / programs).glob("*.py"):
            known |= set(OPTION.findall(text_of(program)))

    named = {
        option
        for span in SPAN.findall(prose(text_of(file)))
        if not span.startswith(FOREIGN_COMMANDS)
        for option in OPTION.findall(span)
    }
    assert named - known == set()


def test_every_key_of_a_table_exists_with_its_default() -> None:
    rows = [(*SPAN.findall(first), default) for first, default, *_ in table(CONFIGURATION, "key")]

    wrong = []
    for name, default in rows:
        if name in KEYS:
            right = f"`{KEYS[name].default}`" if KEYS[name].default else ""
        else:
            right = "" if is_client_key(name) else "no such key"
        if default != right:
            wrong.append(f"{name}: {default}, not {right}")
    assert wrong == []


def test_every_key_is_in_the_document_of_the_configuration() -> None:
    named = set(SPAN.findall(text_of(CONFIGURATION)))

    assert set(KEYS) - named == set()


def test_every_key_named_in_a_sentence_exists() -> None:
    families = {name.partition(".")[0] for name in KEYS if "." in name}
    known = {*KEYS, *JAVA_KEYS, *IGNORED, *REMOVED, "config.providers"}

    wrong = []
    for file in documents():
        for span in SPAN.findall(prose(text_of(file))):
            name = re.split(r"[=:]", span.removeprefix("A->B."))[0]
            is_key = re.fullmatch(r"[a-z-]+(\.[a-z-]+)+(?<!\.jar)", name)
            if is_key and name.partition(".")[0] in families and name not in known:
                wrong.append(f"{label(file)}: {span}")
    assert wrong == []


def test_the_configuration_of_the_readme_is_valid(tmp_path: Path) -> None:
    lines = text_of(README).splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith("    clusters:"))
    block = takewhile(lambda line: line.startswith("    "), lines[start:])
    file = tmp_path / "readme.yaml"
    file.write_text("\n".join(line.removeprefix("    ") for line in block), encoding="utf-8")

    config = load(file, environ={}, default_state_dir="/state")

    assert [str(one.flow) for one in config.flows] == ["us-west->us-east"]
    assert config.notes == ()


def test_the_delta_tables_are_documented_with_their_columns() -> None:
    documented = {
        SPAN.findall(name)[0]: SPAN.findall(columns) for name, columns, _ in table(TABLES, "table")
    }

    assert documented == {
        name: [column.split()[0] for column in schema.split(", ")]
        for name, schema in SCHEMAS.items()
    }


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_column_of_a_delta_table_is_described(name: str) -> None:
    pages = "\n## \n".join(map(text_of, (TABLES, SCHEMA_IDS, CHANGE)))
    section = pages.partition(f"## `{name}`\n")[2].partition("\n##")[0]
    rows = [line.strip("|").split("|") for line in section.splitlines() if line[:3] == "| `"]

    described = {SPAN.findall(column)[0]: meaning.strip() for column, meaning in rows}
    assert list(described) == [column.split()[0] for column in SCHEMAS[name].split(", ")]
    assert all(described.values())


def test_every_ending_of_an_execution_is_described() -> None:
    (meaning,) = (text for column, text in table(TABLES, "column") if column == "`ending`")

    assert [word for word in SPAN.findall(meaning) if word in get_args(Ending)] == [
        *get_args(Ending)
    ]


def test_the_kinds_of_events_are_documented_with_reactions_that_exist() -> None:
    rows = [(SPAN.findall(kind)[0], reaction) for kind, reaction, _ in table(TABLES, "kind")]

    assert {kind for kind, _ in rows} == set(get_args(EventKind))
    assert {reaction for _, reaction in rows} == set(get_args(Reaction))


def calls_of_the_log(tree: ast.AST) -> Iterator[tuple[str, set[str]]]:
    """The level and the events of each call of the log in *tree*; none where a variable has it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
            name = node.func.attr
            parts = [part for part in ast.walk(node.args[0]) if isinstance(part, ast.Constant)]
            named = {str(part.value) for part in parts}
            if name in LEVELS and LOG.search(ast.unparse(node.func.value)):
                yield LEVELS[name], named
            elif name in ONCE:
                yield "WARNING", named


def events_of_the_code() -> dict[str, set[str]]:
    """The levels at which the product logs each of its events."""
    found = defaultdict(set, {"internal_error": {"ERROR"}, "library_message": {"its own"}})
    for kind in get_args(EventKind):
        found[kind.replace("-", "_")].add("WARNING")
    for file in (REPOSITORY / "replication").rglob("*.py"):
        text = text_of(file)
        for failure in re.findall(r'^    failure: Final = "(\w+)"$', text, re.MULTILINE):
            found[failure].add("WARNING")
        for failure in re.findall(r'surviving\(\w+, "(\w+)"\)', text):
            found[failure] |= {"WARNING", "ERROR"}
        for level, names in calls_of_the_log(ast.parse(text)):
            for name in names & set(get_args(Event)):
                found[name].add(level)
    return found


def test_the_events_of_the_log_are_explained_with_their_levels() -> None:
    explained = {
        SPAN.findall(event)[0]: set(levels.split(", "))
        for event, levels, _, _ in table(LOG_EVENTS, "event")
    }
    for level in ("INFO", "DEBUG"):
        for event, _ in table(LOG_EVENTS, f"event at {level}"):
            explained[SPAN.findall(event)[0]] = {level}

    assert explained == events_of_the_code()
    assert set(explained) == set(get_args(Event))


def test_a_page_is_listed() -> None:
    pages = {file.name: text_of(file) for file in EXITS.parent.glob("*.md")}
    index = pages.pop("README.md")

    assert {name for name in pages if f"]({name})" not in index} == set()


def test_every_helper_of_the_tests_is_listed() -> None:
    support = REPOSITORY / "tests" / "support"
    listed = [SPAN.findall(name)[0] for name, _ in table(support / "README.md", "module")]

    assert sorted(listed) == sorted({file.stem for file in support.glob("*.py")} - {"__init__"})


def test_the_exit_codes_are_documented() -> None:
    documented = [int(code) for code, *_ in table(EXITS, "code")]
    classes = [cls for cls in vars(errors).values() if isinstance(cls, type)]
    defined = {cls.exit_code for cls in classes if issubclass(cls, errors.ReplicationError)}

    assert documented == [0, *sorted(defined)]


def test_the_codes_of_errors_are_documented() -> None:
    codes = {cls.code for cls in vars(errors).values() if hasattr(cls, "code")}

    assert {f"`{code}`" for code in codes} <= set(re.findall("`[^`\n]*`", EXITS.read_text()))


def test_the_tree_of_folders_is_complete() -> None:
    drawn, parents = set(), [""]
    for line in blocks(ARCHITECTURE, "")[0].splitlines():
        indent = (len(line) - len(line.lstrip())) // 2
        path = f"{parents[indent]}{line.split()[0]}"
        parents[indent + 1 :] = [path]
        drawn.add(path.rstrip("/"))

    product = REPOSITORY / "replication"
    folders = {label(folder) for folder in product.rglob("*") if list(folder.glob("*.py"))}
    assert drawn == folders | {"conf", "jobs", "replication", "tests"}


def test_nothing_refers_to_a_document_outside_the_repository() -> None:
    files = [file for name in FOLDERS for file in (REPOSITORY / name).rglob("*")]
    files += list(REPOSITORY.iterdir())

    found = []
    for file in files:
        if not file.is_file() or file.suffix not in TEXT or file == Path(__file__):
            continue
        text = text_of(file)
        found += [f"{label(file)}: {name}" for name in OUTSIDE_DOCUMENTS if name in text]
        if file.suffix in {".md", ".py"}:
            found += [f"{label(file)}: {number}" for number in DECISION_NUMBER.findall(text)]
    assert found == []
