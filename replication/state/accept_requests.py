"""What operators have accepted, on its way from ``replication accept`` to the owner of a flow.

A request is one new file under the state directory. The owner of the flow's lease reads it when it
searches positions, and removes it once it is used or of no use any more.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from py4j.protocol import Py4JError

from replication.errors import StateError
from replication.kafka.jvm import open_jvm
from replication.log import Log
from replication.model import Flow, TopicPartition
from replication.offsets.guard import Accepted, Start
from replication.spark.hadoop import hadoop_conf
from replication.state.paths import acceptance_prefix, local_path, new_acceptance
from replication.state.request_files import (
    HadoopFiles,
    LocalFiles,
    RequestFiles,
    first_line,
    hadoop_class_path,
)

log = Log(__name__)

LOOK_SECONDS: Final = 2.0
"""Between two looks for new requests: on a remote state directory each one is a request, too."""


@dataclass(frozen=True, slots=True)
class AcceptRequest:
    """Partitions of *topic* may go on at *start*, if they cannot go on by themselves.

    Args:
        topic: The upstream topic.
        topic_id: Its id when the operator accepted.
        partitions: Their numbers.
        start: Where they go on.
        path: The file; empty for a new request.
    """

    topic: str
    topic_id: str
    partitions: tuple[int, ...]
    start: Start
    path: str = ""

    @property
    def accepted(self) -> dict[TopicPartition, Accepted]:
        """The same for each partition."""
        value = Accepted(self.start, self.topic_id)
        return {TopicPartition(self.topic, number): value for number in self.partitions}

    def text(self) -> str:
        """The content of the file."""
        return json.dumps(
            {
                "topic": self.topic,
                "topic_id": self.topic_id,
                "partitions": self.partitions,
                "from": self.start,
            }
        )


class AcceptRequests:
    """The requests to one flow.

    Args:
        files: Where requests are.
        state_dir: The state directory.
        flow: The flow.
        passed_over: The files that were logged as unreadable, and are not logged again.
    """

    def __init__(
        self,
        files: RequestFiles,
        state_dir: str,
        flow: Flow,
        passed_over: set[str] | None = None,
    ) -> None:
        self._files, self._flow = files, flow
        self._prefix = acceptance_prefix(state_dir, flow)
        self._passed_over = set() if passed_over is None else passed_over

    def find(self) -> list[AcceptRequest]:
        """All requests, oldest first. Anything else is passed over, and logged once."""
        try:
            paths = sorted(self._files.find(self._prefix))
        except (OSError, Py4JError) as error:
            log.warning("accept_requests_unreadable", flow=self._flow, text=first_line(error))
            return []
        requests = map(self._read, paths)
        return [request for request in requests if request is not None]

    def _read(self, path: str) -> AcceptRequest | None:
        try:
            return parse_request(path, self._files.read(path))
        except (ValueError, OSError, Py4JError) as error:
            if path not in self._passed_over:
                self._passed_over.add(path)
                text = (
                    f"{first_line(error)}; it is passed over. Remove it, and accept again with "
                    "python -m replication accept"
                )
                log.warning("accept_request_invalid", flow=self._flow, path=path, text=text)
            return None

    def remove(self, requests: Iterable[AcceptRequest]) -> None:
        """Removes requests that are used, or of no use any more."""
        for request in requests:
            try:
                self._files.delete(request.path)
            except (OSError, Py4JError) as error:  # noqa: PERF203 - the others are removed
                text = first_line(error)
                log.warning("accept_request_left", flow=self._flow, path=request.path, text=text)


def pending_acceptances(state_dir: str, flow: Flow) -> dict[TopicPartition, Accepted]:
    """What operators have accepted for *flow*; none where the state directory is remote."""
    if local_path(state_dir) is None:
        return {}
    requests = AcceptRequests(LocalFiles(), state_dir, flow).find()
    return {tp: accepted for request in requests for tp, accepted in request.accepted.items()}


def request_acceptance(
    state_dir: str, flow: Flow, request: AcceptRequest, hadoop: Mapping[str, str] | None = None
) -> None:
    """Hands *request* to the process that runs *flow*, now or at its next start.

    Args:
        state_dir: The state directory.
        flow: The flow.
        request: What is accepted.
        hadoop: Hadoop's properties for a remote state directory.

    Raises:
        StateError: The state directory cannot be written.
        SetupError: The state directory is remote, and Java, which is needed then, does not start.
    """
    path = new_acceptance(state_dir, flow)
    try:
        if local_path(state_dir) is not None:
            LocalFiles().create(path, request.text())
            return
        with open_jvm(hadoop_class_path()) as jvm:
            HadoopFiles(jvm, hadoop_conf(jvm, hadoop or {})).create(path, request.text())
    except (OSError, Py4JError) as error:
        raise StateError(f"cannot write the request {path}: {first_line(error)}") from error


def parse_request(path: str, text: str) -> AcceptRequest:
    """The request in the *text* of the file *path*.

    Raises:
        ValueError: There is none; the error says what is wrong.
    """
    try:
        content = json.loads(text)
    except RecursionError:
        raise ValueError("brackets within brackets without an end") from None
    if not isinstance(content, dict):
        raise ValueError("no JSON object")  # noqa: TRY004 - the text is wrong, not the program
    topic, topic_id = content.get("topic"), content.get("topic_id")
    partitions, start = content.get("partitions"), content.get("from", "")
    if not isinstance(topic, str) or not isinstance(topic_id, str):
        raise ValueError("topic and topic_id must be strings")  # noqa: TRY004 - as above
    if not isinstance(partitions, list) or not all(_is_whole(number, 31) for number in partitions):
        raise ValueError("partitions must be a list of their numbers")
    if start not in ("earliest", "latest") and not _is_whole(start, 63):
        raise ValueError("from must be an offset, earliest or latest")
    return AcceptRequest(topic, topic_id, tuple(partitions), start, path)


def _is_whole(value: object, bits: int) -> bool:
    """Whether *value* is a whole number as Kafka's protocol has them; `True` is none."""
    return type(value) is int and 0 <= value < 1 << bits
