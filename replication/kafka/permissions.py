"""What the user of a cluster may not do with its topics, as the cluster itself answers."""

from collections.abc import Iterable
from typing import Final, Literal

from replication.kafka.api import ClientFailure
from replication.kafka.call import DESCRIBE_TOPIC, READ_TOPIC, WRITE_TOPIC, Call
from replication.kafka.calls import Calls
from replication.kafka.diagnosis import NOT_FOUND

Operation = Literal["READ", "WRITE"]

CALLS: Final[dict[Operation, Call]] = {"READ": READ_TOPIC, "WRITE": WRITE_TOPIC}
DENIED: Final = "TOPIC_AUTHORIZATION_FAILED"


def denied_topics(calls: Calls, operation: Operation, topics: Iterable[str]) -> dict[str, str]:
    """Returns why the user may not do *operation* on *topics*: only those where it may not.

    Topics that do not exist are absent. A broker that is older than Kafka 2.3 does not answer the
    question, so that nothing is denied.

    Raises:
        CallError: The cluster does not answer.
    """
    results = calls.results(Call("asking for permissions on topics"), calls.admin.rights, topics)
    hidden = {
        name
        for name, found in results.items()
        if isinstance(found, ClientFailure) and found.code == DENIED
    }
    visible = calls.require(DESCRIBE_TOPIC, results, {NOT_FOUND, DENIED})
    forbidden = {
        name for name, rights in visible.items() if rights is not None and operation not in rights
    }
    return {name: calls.denial(CALLS[operation].of(name)) for name in sorted(hidden | forbidden)}
