"""How far the topics of a flow are behind, by the last word of its owner."""

from collections.abc import Collection
from dataclasses import dataclass

from replication.control.flow_answers import FlowAnswer
from replication.figures.document import document
from replication.figures.observation import Figures, TopicFigures


@dataclass(frozen=True, slots=True)
class FlowLag:
    """The lag of one flow.

    Args:
        answer: How the flow is.
        topics: Topics of it, the furthest behind first.
    """

    answer: FlowAnswer
    topics: tuple[TopicFigures, ...]

    def document(self) -> dict[str, object]:
        """Returns what a command prints as JSON."""
        answer, word = self.answer, self.answer.heard.word
        said = None if word is None else document(word.observed)
        by_name = {} if said is None else {row["topic"]: row for row in said["topics"]}
        figures = {} if said is None else said["figures"]
        return {
            "flow": str(answer.flow),
            "state": answer.state,
            "why": answer.why or None,
            "heard_seconds": None if answer.age is None else round(answer.age, 1),
            "no_word": answer.heard.why_not or None,
            "lag_records": figures.get("lag_records"),
            "lag_seconds": figures.get("lag_seconds"),
            "topics": [by_name[row.topic] for row in self.topics],
        }


def flow_lag(answer: FlowAnswer, topics: Collection[str], top: int) -> FlowLag:
    """Returns the lag by an *answer*, of *topics*, or of all if there are none, at most *top*."""
    word = answer.heard.word
    said = () if word is None else word.observed.topics
    chosen = [row for row in said if row.topic in topics or not topics]
    chosen.sort(key=lambda row: behind(row.figures), reverse=True)
    return FlowLag(answer, tuple(chosen[:top]))


def behind(figures: Figures) -> tuple[float, float]:
    """Returns what orders topics and partitions by their lag."""
    return figures.get("lag_seconds", -1.0), figures.get("lag_records", -1.0)
