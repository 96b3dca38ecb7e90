"""What can go wrong, and the exit code each end gets. Pure.

    ReplicationError            1  a defect: please report it
    |- ConfigError              2  the configuration or command line is wrong; nothing was started
    |- ClusterError             3  a Kafka cluster did not answer, or refused
    |- LeaseError               4  another process runs this flow on this state directory
    |- GuardError               5  going on would lose or repeat records; a person must decide
    |- FlowError                6  a flow's query failed and restarting it did not help
    |- StateError               7  the state directory cannot be read or written
    `- NoAnswerError            8  a command's question has no answer: nothing was replicated there

0 is a clean end: a drain that is done, or a stop that was asked for.
"""

from collections.abc import Sequence


class ReplicationError(Exception):
    """Root of all errors raised on purpose. Its text is for an operator, not for a developer."""

    exit_code = 1


class ConfigError(ReplicationError):
    """The configuration is wrong. Carries every problem found, not only the first.

    Args:
        file: The file that was read, as the operator named it.
        problems: One line each: ``key: what is wrong, with the value; what to write instead``.
    """

    exit_code = 2

    def __init__(self, file: str, problems: Sequence[str]) -> None:
        self.file = file
        self.problems = tuple(problems)
        lines = "".join(f"\n  - {problem}" for problem in self.problems)
        super().__init__(f"{file} has {len(self.problems)} problem(s):{lines}")


class ClusterError(ReplicationError):
    """A Kafka cluster did not answer or refused. The text names call, cluster, value, next step."""

    exit_code = 3


class LeaseError(ReplicationError):
    """Another process holds the flow's lease. The text names its host, process and age."""

    exit_code = 4


class GuardError(ReplicationError):
    """Source and target no longer fit the offset map. The text gives offsets and choices."""

    exit_code = 5


class FlowError(ReplicationError):
    """A flow's query failed for good. The text gives topic, partition and offset where known."""

    exit_code = 6


class StateError(ReplicationError):
    """The state directory (Delta tables, lease, control files) cannot be read or written."""

    exit_code = 7


class NoAnswerError(ReplicationError):
    """A question has no answer, such as an offset that was never replicated. The text says why."""

    exit_code = 8
