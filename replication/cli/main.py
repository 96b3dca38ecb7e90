"""The command line: ``python -m replication COMMAND``.

Commands parse arguments, call control/, and print. Exit codes are those of `replication.errors`;
wrong usage is 2.
"""

from importlib import import_module
from keyword import iskeyword
from typing import Any, Final

import click

from replication.cli.without_spark import name_what_is_absent
from replication.mm2.policy import CustomClass, ask_with

DISTRIBUTION: Final = "kafka-replication-on-spark"
COMMANDS: Final = {
    "validate": "cli.validate",
    "keys": "cli.configuration",
    "import": "features.mm2_import",
    "acls": "cli.configuration",
    "doctor": "features.doctor.examine",
    "plan": "cli.plan",
    "transform": "cli.plan",
    "slots": "cli.validate",
    "translate": "cli.translate",
    "schemas": "cli.schemas",
    "groups": "cli.groups",
    "export-offsets": "cli.groups",
    "apply-offsets": "cli.groups",
    "failback": "cli.groups",
    "accept": "cli.positions",
    "positions": "cli.positions",
    "move-position": "cli.positions",
    "reset-positions": "cli.positions",
    "skip": "cli.positions",
    "dead-letters": "cli.dead_letters",
    "retry": "cli.retry",
    "status": "cli.status",
    "lag": "cli.status",
    "events": "cli.status",
    "serve": "cli.serve",
    "token": "cli.serve",
    "topics": "cli.change",
    "group-lists": "cli.change",
    "pause": "cli.change",
    "resume": "cli.change",
    "hold": "cli.change",
    "release": "cli.change",
    "limit": "cli.change",
    "history": "cli.change",
    "undo": "cli.change",
    "srm-control": "cli.change",
    "stop": "cli.stop",
    "demo": "cli.demo",
}
"""Each command and its module. Nothing else names a feature."""

EPILOG: Final = """\b
Shell completion, here for bash (zsh and fish work alike):
  eval "$(_REPLICATION_COMPLETE=bash_source replication)"
\b
Exit codes:
  0  success                      5  stopped to avoid losing or repeating records
  1  an internal error            6  a flow failed and restarting it did not help
  2  wrong usage or set-up        7  the state directory cannot be read or written
  3  a Kafka cluster failed       8  the question has no answer
  4  the flow runs elsewhere      9  a flow is not well (status --check)
"""


class Commands(click.Group):
    """Imports a command's module only when it is used: not every command needs Spark or Kafka."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Returns the names of all commands, in the order a new user needs them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Returns the command *cmd_name*, None if there is none."""
        if cmd_name not in COMMANDS:
            return None
        name_what_is_absent()
        module = import_module(f"replication.{COMMANDS[cmd_name]}")
        function = cmd_name.replace("-", "_")
        if iskeyword(function):
            function += "_"
        command: click.Command = getattr(module, function)
        return command


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=EPILOG,
)
@click.version_option(package_name=DISTRIBUTION, prog_name="replication")
def main() -> None:
    """Kafka-to-Kafka replication on Spark Structured Streaming.

    FILE is a configuration file, YAML or .properties, as in conf/example.yaml. Start a mirror with
    ./spark-submit.sh --config FILE; these commands inspect it and control it.
    """
    ask_with(_ask_java)


def _ask_java(custom: CustomClass, method: str, arguments: tuple[str, ...]) -> Any:  # noqa: ANN401
    return import_module("replication.kafka.jvm").ask_java(custom, method, arguments)
