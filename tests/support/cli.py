"""This project's commands as a user starts them, but in the process of the test."""

from click.testing import CliRunner, Result

from replication.cli.main import main


def run(*arguments: object) -> Result:
    """The result of a command, whose arguments are turned into text."""
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def ok(result: Result) -> Result:
    """The result of a command that must have succeeded."""
    assert result.exit_code == 0, (result.output, result.exception)
    return result
