"""One offset of one partition on the other cluster of a flow, by the offset map."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from replication.config.tree import FlowConfig
from replication.errors import ClusterError, NoAnswerError
from replication.model import Flow, TopicPartition
from replication.offsets.map import NoAnswer, OffsetMap, Translation, fields, quality
from replication.offsets.runs import OffsetRun
from replication.topics.selection import replicated_topics

StartOf = Callable[[bool, TopicPartition], int | None]
"""Where the log of a partition starts, on the target or, if true, on the source; None: unknown."""

RunsOf = Callable[[TopicPartition], Sequence[OffsetRun]]
"""The merged runs of an upstream partition; none if nothing was replicated."""


@dataclass(frozen=True, slots=True)
class Question:
    """A group's next offset to read in *partition*, on the source, or with *back* on the target.

    The topic may be given by its upstream or by its remote name.
    """

    partition: TopicPartition
    offset: int
    back: bool


@dataclass(frozen=True, slots=True)
class Answer:
    """The upstream partition that *question* means in a flow, its remote topic, the translation."""

    flow: Flow
    question: Question
    upstream: TopicPartition
    remote_topic: str
    translation: Translation

    def document(self) -> dict[str, object]:
        """Returns what a command prints as JSON."""
        return {
            "flow": str(self.flow),
            "topic": self.upstream.topic,
            "remote_topic": self.remote_topic,
            "partition": self.upstream.partition,
            "back": self.question.back,
            "from_offset": self.question.offset,
            "to": fields(self.translation),
        }


def answer_question(
    config: FlowConfig, runs_of: RunsOf, question: Question, start_of: StartOf
) -> Answer:
    """Translates the offset of *question*; `NoAnswer` where no offset is safe."""
    asked = question.partition
    upstream = [TopicPartition(name, asked.partition) for name in _upstream_names(config, asked)]
    with_runs = ((tp, runs) for tp in upstream if (runs := runs_of(tp)))
    tp, runs = next(with_runs, (upstream[0], ()))
    offset_map = OffsetMap(runs)
    remote = config.policy.remote_topic(config.flow.source, tp.topic)
    copy = TopicPartition(remote, tp.partition)
    translate = offset_map.translate_back if question.back else offset_map.translate
    start, first = None, offset_map.starts_at
    if runs and question.offset < (offset_map.runs[0].tgt_from if question.back else first):
        start = start_of(question.back, tp if question.back else copy)
    return Answer(config.flow, question, tp, remote, translate(question.offset, start))


def log_start(config: FlowConfig, on_source: bool, tp: TopicPartition) -> int | None:  # noqa: FBT001 - as StartOf
    """Returns where the log of *tp* starts on a cluster of the flow; None if it does not say."""
    # Imported here because most offsets have an answer without a cluster, at once
    from replication.kafka.cluster import Cluster  # noqa: PLC0415

    side = config.source if on_source else config.target
    with suppress(ClusterError), Cluster(side.alias, side.admin) as cluster:
        return cluster.earliest([tp]).get(tp)
    return None


def no_answer(config: FlowConfig, answer: Answer) -> NoAnswerError:
    """Returns the error of a command whose question has no safe offset."""
    tp, flow, question = answer.upstream, config.flow, answer.question
    alias = flow.target if question.back else flow.source
    text = (
        f"flow {flow}: offset {question.offset} of {question.partition} on {alias} has no answer: "
        f"{quality(answer.translation)}"
    )
    if isinstance(answer.translation, NoAnswer) and answer.translation.first is None:
        if replicated_topics(config, [tp.topic]):
            text += f"; the offset map has no records of {tp}: check partition and state.dir"
        else:
            text += f"; {tp.topic} is not one of the flow's topics: check the name and topics"
    return NoAnswerError(text)


def _upstream_names(config: FlowConfig, asked: TopicPartition) -> list[str]:
    """Returns the upstream topics that the name may mean, the likelier one first."""
    policy, name = config.policy, asked.topic
    is_remote = policy.topic_source(name) == config.flow.source
    upstream = policy.upstream_topic(name) if is_remote else None
    return [name] if upstream is None or upstream == name else [upstream, name]
