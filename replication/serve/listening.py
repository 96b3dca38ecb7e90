"""Listens to what the owners of flows say, in a thread of its own."""

import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Final

from replication.config.tree import MirrorConfig
from replication.control.flow_answers import FlowAnswer, FlowAnswers
from replication.errors import ReplicationError
from replication.log import Log
from replication.model import Flow
from replication.serve.sight import Seen

log = Log(__name__)

LISTEN_SECONDS: Final = 2.0
"""How long each turn takes in what is said, before the groups of the leases are asked again."""

_END_SECONDS: Final = 10.0


class Listening(AbstractContextManager["Listening"]):
    """What was heard of all flows, renewed every few seconds, for the block.

    Args:
        config: The configuration.
    """

    def __init__(self, config: MirrorConfig) -> None:
        waiting = "what the flows publish is still being read"
        self._config = config
        self._seen = {flow.flow: Seen(flow.flow, text=waiting) for flow in config.flows}
        self._is_complete = threading.Event()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="listen", daemon=True)

    def __enter__(self) -> "Listening":  # noqa: PYI034 - typing has Self from 3.11
        """Begins to listen."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Ends the thread, which may be waiting for a cluster."""
        self._over.set()
        self._thread.join(_END_SECONDS)

    def look(self, flow: Flow) -> Seen:
        """Returns what was heard of *flow*; does not wait."""
        return self._seen[flow]

    def is_complete(self) -> bool:
        """Returns whether everything was read once that is there."""
        return self._is_complete.is_set()

    def _run(self) -> None:
        with FlowAnswers(self._config, self._config.flows) as answers:
            while not self._over.is_set():
                self._ask(answers)

    def _ask(self, answers: FlowAnswers) -> None:
        try:
            self._take(answers.ask(LISTEN_SECONDS, are_tables_wanted=False))
        except ReplicationError as error:  # no job ever began here
            self._seen = {flow: Seen(flow, text=str(error)) for flow in self._seen}
            self._over.wait(LISTEN_SECONDS)
        except Exception:  # the thread's edge: the next turn may do better
            log.exception("serve_failed", text="please report this")
            self._over.wait(LISTEN_SECONDS)
        self._is_complete.set()

    def _take(self, answers: Sequence[FlowAnswer]) -> None:
        self._seen = {answer.flow: seen_of(answer) for answer in answers}


def seen_of(answer: FlowAnswer) -> Seen:
    """Returns what an answer says of a flow."""
    word = answer.heard.word
    text = answer.why if word else "; ".join(filter(None, (answer.why, answer.heard.why_not)))
    observed = word.observed if word else None
    is_silent = answer.state == "silent"
    return Seen(answer.flow, observed, is_silent, text, str(answer.state), answer.standbys)
