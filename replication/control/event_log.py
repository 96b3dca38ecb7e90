"""The events of flows: rows of the table, else the last ones that the owners have told."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from replication.config.tree import FlowConfig, MirrorConfig
from replication.control.flow_answers import FlowAnswers
from replication.errors import NoAnswerError, ReplicationError
from replication.figures.clocks import utc
from replication.model import Flow
from replication.state.folder import check_begun
from replication.state.readers import open_reader

Details = tuple[tuple[str, str | int], ...]


@dataclass(frozen=True, slots=True, order=True)
class LoggedEvent:
    """One event; *details* are its further columns, such as topic and offsets."""

    at: datetime
    flow: Flow
    kind: str
    reaction: str
    text: str
    details: Details = ()

    def document(self) -> dict[str, object]:
        """Returns what a command prints as JSON."""
        return {
            "flow": str(self.flow),
            "at": self.at.isoformat(),
            "kind": self.kind,
            "reaction": self.reaction,
            "text": self.text,
            **dict(self.details),
        }


def read_events(config: MirrorConfig, flows: Sequence[FlowConfig]) -> tuple[list[LoggedEvent], str]:
    """Returns the events of *flows*, the oldest first, and why some may be missing.

    Raises:
        NoAnswerError: Neither the tables nor the owners of the flows tell anything.
    """
    try:
        check_begun(config.state_dir)
        return sorted(_of_tables(config, flows)), ""
    except ReplicationError as error:
        reason = str(error)
    with FlowAnswers(config, flows) as answers:
        heard = [one.heard for one in answers.ask()]
    told = [one.word.observed for one in heard if one.word is not None]
    if not told:
        raise NoAnswerError(f"no events are known: {reason}; {heard[0].why_not}")
    events = (
        LoggedEvent(
            utc(row.at),
            observed.flow,
            row.kind,
            row.reaction,
            row.text,
            tuple(sorted(row.details.items())),
        )
        for observed in told
        for row in observed.events
    )
    return sorted(events), f"only the last events of each owner are known: {reason}"


def _of_tables(config: MirrorConfig, flows: Sequence[FlowConfig]) -> Iterable[LoggedEvent]:
    known = {"flow", "at", "kind", "reaction", "text", "policy"}
    with open_reader(config.access) as state:
        for flow in flows:
            for row in state.rows("events", flow.flow):
                details = {key: value for key, value in row.items() if key not in known}
                yield LoggedEvent(
                    row["at"],
                    flow.flow,
                    row["kind"],
                    # which tables of earlier versions call a policy
                    row.get("reaction") or row.get("policy") or "",
                    row["text"],
                    tuple(sorted((k, v) for k, v in details.items() if v is not None)),
                )
