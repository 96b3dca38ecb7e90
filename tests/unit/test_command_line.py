"""The command line as a new user meets it: help, version, completion, answers and exit codes."""

import configparser
import json
import os
import re
import resource
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from replication import errors
from replication.cli.main import COMMANDS, EPILOG, main
from replication.model import Flow, TopicPartition
from replication.offsets.runs import OffsetRun
from tests.support.offset_tables import write_offset_map

REPOSITORY = Path(__file__).resolve().parents[2]
TRANSLATE_CPU_SECONDS = 1.5
JSON_COMMANDS = {
    *(
        "plan",
        "transform",
        "translate",
        "groups",
        "export-offsets",
        "apply-offsets",
        "failback",
        "accept",
    ),
    *("positions", "move-position", "reset-positions", "skip"),
    *("status", "lag", "events", "doctor", "schemas", "dead-letters"),
    *("topics", "group-lists", "pause", "resume", "hold", "release", "limit", "history", "undo"),
}
CONFIG = """
clusters: [A, B]
A.bootstrap.servers: nowhere:9092
B.bootstrap.servers: nowhere:9093
A->B: {{enabled: true, topics: [orders, payments]}}
state.dir: {state}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A configuration whose offset map holds 100 records of orders-0, from source offset 50 on."""
    state = tmp_path / "state"
    write_offset_map(
        state, Flow("A", "B"), {TopicPartition("orders", 0): [OffsetRun(50, 150, 0, 100)]}
    )
    file = tmp_path / "mirror.yaml"
    file.write_text(CONFIG.format(state=state.as_uri()))
    return file


def command(name: str) -> click.Command:
    found = main.get_command(click.Context(main), name)
    assert found is not None
    return found


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def replication(
    *arguments: object, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """The real command, in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "replication", *map(str, arguments)],
        cwd=REPOSITORY,
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        check=False,
    )


def translate(file: Path, *options: object) -> subprocess.CompletedProcess[str]:
    return replication("translate", file, "--flow", "A->B", "--partition", "0", *options)


def test_a_job_without_heartbeats_needs_a_flow(file: Path) -> None:
    file.write_text(file.read_text().replace("enabled: true", "enabled: false"))

    done = run("validate", file)
    refused = run("validate", file, "--job", "replicate")

    assert done.exit_code == 0, done.output
    assert "warning: A->B.enabled: no flow is enabled: only heartbeats are emitted" in done.output
    assert "is valid: 2 clusters, heartbeats only, of A->B, B->A" in done.output
    assert refused.exit_code == 2
    assert "no enabled flow runs here, so the job replicate has no work" in refused.output
    assert "A->B.enabled to true" in run("groups", file, "--flow", "A->B").output


def test_the_version_is_that_of_the_package() -> None:
    setup = configparser.ConfigParser()
    setup.read(REPOSITORY / "setup.cfg")

    done = replication("--version")

    version = setup["metadata"]["version"]
    assert (done.returncode, done.stdout) == (0, f"replication, version {version}\n")


def test_the_help_cuts_no_summary_on_a_narrow_terminal() -> None:
    done = run("--help")

    lines = re.findall(r"^  ([a-z-]+) {2,}(\S.*)$", done.output, re.MULTILINE)
    summaries = {name: text for name, text in lines if name in COMMANDS}
    assert done.exit_code == 0
    assert set(summaries) == set(COMMANDS)
    assert [text for text in summaries.values() if text.endswith("...")] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_of_a_command_is_explained(name: str) -> None:
    options = [param for param in command(name).params if isinstance(param, click.Option)]

    assert [option.name for option in options if not option.help] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_that_prints_a_table_prints_json_too(name: str) -> None:
    options = {option for param in command(name).params for option in param.opts}

    assert ("--json" in options) == (name in JSON_COMMANDS)


def test_the_help_lists_the_exit_codes_of_all_errors() -> None:
    classes = [cls for cls in vars(errors).values() if isinstance(cls, type)]
    codes = {cls.exit_code for cls in classes if issubclass(cls, errors.ReplicationError)}

    assert set(map(int, re.findall(r"\b(\d)  ", EPILOG))) == {0, *codes}


def test_bash_completes_the_commands() -> None:
    variable = "_REPLICATION_COMPLETE"

    script = replication(environment={variable: "bash_source"})
    words = {"COMP_WORDS": "replication tr", "COMP_CWORD": "1"}
    completed = replication(environment={variable: "bash_complete", **words})

    assert "complete -o nosort -F _replication_completion replication" in script.stdout
    assert completed.stdout == "plain,transform\nplain,translate\n"


def test_an_unquoted_flow_is_explained(file: Path) -> None:
    done = run("translate", file, "--flow", "A-", "--topic", "t", "--partition", 0, "--offset", 0)

    assert done.exit_code == 2
    assert "quote the name: --flow 'A->...'" in done.stderr


def test_the_flow_is_named_only_where_the_file_has_several(file: Path) -> None:
    question = ("--topic", "orders", "--partition", 0, "--offset", 130)

    alone = run("translate", file, *question)
    file.write_text(f"{file.read_text()}\nB->A: {{enabled: true}}\n")
    several = run("translate", file, *question)

    assert (alone.exit_code, alone.stdout) == (0, "80 exact\n")
    assert several.exit_code == 2
    assert "write --flow 'A->B' or --flow 'B->A'" in several.stderr


@pytest.mark.parametrize(
    ("options", "answer"),
    [
        pytest.param(("--topic", "orders", "--offset", 130), "80 exact", id="forward"),
        pytest.param(("--topic", "A.orders", "--offset", 130), "80 exact", id="by remote name"),
        pytest.param(
            ("--topic", "orders", "--offset", 160),
            "100 ahead of replication; at most 10 records may be read again",
            id="ahead",
        ),
        pytest.param(("--topic", "A.orders", "--offset", 80, "--back"), "130 exact", id="back"),
        pytest.param(
            ("--topic", "orders", "--offset", 80, "--back"), "130 exact", id="back by upstream name"
        ),
    ],
)
def test_translate_prints_the_offset_and_nothing_else(
    file: Path, options: tuple[object, ...], answer: str
) -> None:
    done = translate(file, *options)

    assert (done.returncode, done.stdout, done.stderr) == (0, f"{answer}\n", "")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        pytest.param(
            ("--topic", "payments", "--offset", 5),
            "nothing replicated; the offset map has no records of payments-0",
            id="not replicated yet",
        ),
        pytest.param(
            ("--topic", "A.paymens", "--offset", 5, "--back"),
            "paymens is not one of the flow's topics",
            id="misspelt",
        ),
    ],
)
def test_an_offset_without_an_answer_is_an_error(
    file: Path, options: tuple[object, ...], reason: str
) -> None:
    done = translate(file, *options)

    assert (done.returncode, done.stdout) == (8, "")
    assert reason in done.stderr


def test_translate_as_json(file: Path) -> None:
    found = translate(file, "--topic", "A.orders", "--offset", 80, "--back", "--json")
    before = translate(file, "--topic", "orders", "--offset", 7, "--json")

    assert found.returncode == 0
    assert json.loads(found.stdout) == {
        "flow": "A->B",
        "topic": "orders",
        "remote_topic": "A.orders",
        "partition": 0,
        "back": True,
        "from_offset": 80,
        "to": {"offset": 130, "quality": "exact", "reread": 0, "text": "exact"},
    }
    assert before.returncode == 0
    assert json.loads(before.stdout)["to"] == {
        "offset": 0,
        "quality": "bounded",
        "reread": 0,
        "never_copied": 43,
        "text": "the earliest copy; 43 records before it were never copied",
    }


def test_translate_answers_in_little_time(file: Path) -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = translate(file, "--topic", "orders", "--offset", 130)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)

    # CPU time, because the clock also measures what else runs on this machine
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert done.stdout == "80 exact\n"
    assert cpu < TRANSLATE_CPU_SECONDS


def test_translate_imports_neither_spark_nor_a_kafka_client(file: Path) -> None:
    arguments = ["translate", str(file), "--flow", "A->B", "--topic", "orders"]
    position = ["--partition", "0", "--offset", "130"]
    script = (
        "import sys; from replication.cli.main import main; "
        f"main({[*arguments, *position]}, standalone_mode=False); "
        "print({'pyspark', 'confluent_kafka', 'rich'} & set(sys.modules))"
    )

    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )

    assert done.stdout == "80 exact\nset()\n"


def test_a_stop_with_nothing_running_says_so(file: Path) -> None:
    done = run("stop", file)

    assert (done.exit_code, done.output) == (0, "A->B is not running\n")


UNSET = """
clusters: [A, B]
A.bootstrap.servers: localhost:1
B.bootstrap.servers: localhost:1
A->B: {{enabled: true, topics: [orders, payments]}}
state.dir: {state}
A->B.replication.transforms: mask
A->B.replication.transforms.mask.topics: orders
A->B.replication.transforms.mask.value: "'${{env:KEY_SALT}}'"
A.consumer.sasl.jaas.config: ${{env:PASSWORD}}
A.admin.sasl.jaas.config: ${{env:PASSWORD}}
A.schema.registry.url: http://r:8081
A.schema.registry.basic.auth.user.info: ${{env:REGISTRY_USER}}
A->B.tasks.max: ${{env:TASKS}}
rest.port: ${{env:PORT}}
metrics.port: ${{env:PORT}}
offset.flush.interval.ms: ${{file:/not/there:interval}}
"""


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("status", 0),
        ("events", 0),
        ("lag", 8),
        ("history", 0),
        ("stop", 0),
        ("pause --wait 0", 0),
        ("hold CHG-1 --wait 0", 0),
        ("limit --records 5 --wait 0", 0),
        ("topics --add more --wait 0", 0),
        ("dead-letters", 0),
        ("translate --topic orders --partition 0 --offset 60", 0),
    ],
)
def test_a_command_needs_only_the_references_that_it_uses(
    tmp_path: Path, file: Path, line: str, code: int
) -> None:
    file.write_text(UNSET.format(state=(tmp_path / "state").as_uri()))
    name, *options = line.split()

    result = run(name, file, *options)

    assert result.exit_code == code, result.output
    assert "KEY_SALT" not in result.output


@pytest.mark.parametrize(
    ("key", "line"),
    [
        ("A.admin.sasl.jaas.config", "groups"),
        ("A->B.topics", "translate --topic x --partition 0 --offset 0"),
        ("state.dir", "events"),
        ("hadoop.fs.s3a.secret.key", "events"),
        ("A->B.enabled", "stop"),
        ("clusters", "history"),
    ],
)
def test_a_reference_that_a_command_uses_is_named_where_it_leads_nowhere(
    file: Path, key: str, line: str
) -> None:
    flat = file.read_text().replace(
        "A->B: {enabled: true, topics: [orders, payments]}", "A->B.enabled: true\nA->B.topics: x"
    )
    kept = [text for text in flat.splitlines() if not text.startswith(f"{key}:")]
    file.write_text("\n".join([*kept, f"{key}: ${{env:NOT_THERE}}"]))
    name, *options = line.split()

    result = run(name, file, *options)

    assert result.exit_code == 2, result.output
    assert f"{file}: {key}: ${{env:NOT_THERE}} is not set; export NOT_THERE" in result.output


def test_no_library_of_another_python_or_spark_is_loaded(tmp_path: Path, file: Path) -> None:
    for library in ("click", "pyspark", "py4j", "yaml", "rich"):
        (tmp_path / "other" / library).mkdir(parents=True)
        (tmp_path / "other" / library / "__init__.py").write_text("raise SystemExit('another')")
    environment = {"PYTHONPATH": str(tmp_path / "other"), "PYTHONHOME": sys.base_prefix}
    environment |= {"SPARK_REMOTE": "sc://nowhere", "PYSPARK_SUBMIT_ARGS": "--bad"}

    module = replication("history", file, environment=environment)
    entry = "import sys; from replication.__main__ import main; sys.exit(main())"
    console = subprocess.run(
        [sys.executable, "-c", entry, "history", file], cwd=REPOSITORY, check=False,
        env={**os.environ, **environment}, capture_output=True, text=True,
    )  # fmt: skip

    for done in (module, console):
        assert (done.returncode, done.stderr) == (0, "")
        assert "reason" in done.stdout


def test_what_only_pythonpath_brings_is_found_there(tmp_path: Path) -> None:
    (tmp_path / "only_there.py").write_text("print('found')")
    program = (
        "import runpy, sys; sys.argv = ['replication', '--version']\n"
        "try: runpy.run_module('replication', run_name='__main__')\n"
        "except SystemExit: import only_there"
    )

    done = subprocess.run(
        [sys.executable, "-c", program], cwd=REPOSITORY, check=True, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )  # fmt: skip

    assert done.stdout.splitlines()[-1] == "found"


ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


@pytest.mark.parametrize(
    ("environment", "shown"),
    [
        pytest.param({"PYTHONIOENCODING": "utf-8"}, "n\u00e9e \u65e5", id="a name as it is"),
        pytest.param({"PYTHONIOENCODING": "ascii"}, r"n\xe9e \u65e5", id="ASCII"),
        pytest.param({"PYTHONIOENCODING": "latin-1"}, "n\u00e9e \\u65e5", id="latin-1"),
        pytest.param(ASCII, r"n\xe9e \u65e5", id="locale C"),
    ],
)
def test_a_name_is_shown_escaped_where_the_output_does_not_know_it(
    file: Path, environment: dict[str, str], shown: str
) -> None:
    encoding = environment.get("PYTHONIOENCODING", "ascii")
    run("pause", file, "--reason", "n\u00e9e \u65e5", "--wait", "0")

    for command, *options in (["history"], ["topics", "--add", "\u00e9", "--dry-run"]):
        done = subprocess.run(
            [sys.executable, "-m", "replication", command, file, *options], cwd=REPOSITORY,
            env={**os.environ, **environment}, capture_output=True, check=False,
        )  # fmt: skip
        out, err = done.stdout.decode(encoding), done.stderr.decode(encoding)

        assert "Traceback" not in err
        assert shown in out or command != "history"


def test_the_demo_takes_no_mode_that_ends_by_itself() -> None:
    result = run("demo", "--mode", "drain")

    assert result.exit_code == 2
    assert "'drain' is not one of" in result.output
