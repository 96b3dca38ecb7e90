"""The errors raised on purpose, as a tree, and the exit code of each. Pure.

    ReplicationError            1  an internal error: please report it
    |- ConfigError              2  the configuration or command line is wrong; nothing was started
    |- SetupError               2  this machine or Spark lacks something: a jar, a class, a port
    |- IdentityError            2  the state directory is of other Kafka clusters than the file
    |- ClusterError             3  a Kafka cluster does not answer or rejects a request
    |- LeaseError               4  another process runs this flow, or has taken it over
    |- GuardError               5  continuing would lose or repeat records; an operator must decide
    |- FlowError                6  a flow's query failed and restarting it did not help
    |- StateError               7  the state directory cannot be read or written
    |- NoAnswerError            8  a command's question has no answer: nothing was replicated there
    `- UnhealthyError           9  a flow is silent, has failed, or is not well (status --check)

0 is a clean end: a finished drain, or a stop on request.
"""

from collections.abc import Sequence
from typing import Final

SHOWN_PROBLEMS: Final = 50
"""How many problems of a configuration an error prints."""


def printable(text: str) -> str:
    """Escapes the control characters of *text*, so that a file cannot write to the terminal."""
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )


def first_line(failure: BaseException | str) -> str:
    """Returns the first line of what *failure* says: Java's own text for one of Java.

    An exception without a text is called by its class.
    """
    if isinstance(failure, str):
        return failure.strip().partition("\n")[0]
    text = str(getattr(failure, "java_exception", None) or failure)  # py4j adds text of its own
    return first_line(text) or type(failure).__name__


class ReplicationError(Exception):
    """Root of all errors raised on purpose. Its text is for an operator, not for a developer.

    Attributes:
        exit_code: That of a process that ends with it.
        code: A name for programs, which stays when the text is worded anew.
        command: What an operator may run next, where the text names a command.
        partitions: Of how many partitions of a topic the text has a line each; 0 if of none.
    """

    exit_code = 1
    code = "internal"
    command = ""
    partitions = 0

    @property
    def cause(self) -> str:
        """What stays the same as long as the same thing must be mended, and is said once."""
        return str(self)

    def document(self) -> dict[str, object]:
        """Returns what a command prints of it as JSON."""
        return {"code": self.code, "exit_code": self.exit_code, "text": str(self)}


class ConfigError(ReplicationError):
    """The configuration is wrong. Carries every problem found, not only the first.

    Args:
        file: The file that was read, as the operator named it.
        problems: One line each: ``key: what is wrong, with the value; what to write instead``.
    """

    exit_code = 2
    code = "configuration"

    def __init__(self, file: str, problems: Sequence[str]) -> None:
        self.file = file
        self.problems = tuple(map(printable, problems))
        lines = "".join(f"\n  - {problem}" for problem in self.problems[:SHOWN_PROBLEMS])
        if (more := len(self.problems) - SHOWN_PROBLEMS) > 0:
            lines += f"\n  and {more} more"
        super().__init__(f"{printable(file)} has {len(self.problems)} problem(s):{lines}")


class SetupError(ReplicationError):
    """Something is not installed or not available. The text says where it comes from."""

    exit_code = 2
    code = "setup"


class IdentityError(ReplicationError):
    """A flow's clusters are not those that its state is of. The text has both ids."""

    exit_code = 2
    code = "identity"


class ClusterError(ReplicationError):
    """A Kafka cluster does not answer or rejects a request.

    The text names the call, the cluster, the value and the next step.
    """

    exit_code = 3
    code = "cluster"


class LeaseError(ReplicationError):
    """Another process holds the flow's lease, or this one lost it. The text names the other."""

    exit_code = 4
    code = "lease"


class GuardError(ReplicationError):
    """Source and target no longer match the offset map. The text gives offsets and choices."""

    exit_code = 5
    code = "guard"


class FlowError(ReplicationError):
    """A flow's query failed for good. The text gives topic, partition and offset where known."""

    exit_code = 6
    code = "flow"


class StateError(ReplicationError):
    """The state directory (Delta tables, lease, control files) cannot be read or written."""

    exit_code = 7
    code = "state"


class NoAnswerError(ReplicationError):
    """A question has no answer, such as an offset that was never replicated. The text says why."""

    exit_code = 8
    code = "no-answer"


class UnhealthyError(ReplicationError):
    """A flow is silent, has failed, or is not well, as ``status --check`` was asked."""

    exit_code = 9
    code = "unhealthy"
