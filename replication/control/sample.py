"""What a flow's transforms make of the newest records of its topics: read, evaluated, not copied.

The answer has the content of records. Nothing here writes it anywhere.
"""

import base64
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from replication.config.tree import FlowConfig
from replication.errors import ConfigError, NoAnswerError
from replication.kafka.cluster import Cluster, open_clusters
from replication.model import Chain, Flow, TopicPartition
from replication.offsets.runs import newest_windows
from replication.positions.flow_clients import IdleFlowClients, compared
from replication.spark.transform_check import (
    SHOWN_BYTES,
    Sampled,
    ShownRecord,
    sample,
    transform_problems,
)
from replication.topics.topic_plan import TopicPlan, chain_of
from replication.upkeep.prepare import look, without_refused

MOST_RECORDS: Final = 1000
"""Of a topic, in one sample."""

MOST_TOPICS: Final = 50
"""In one sample; others have to be asked for by name."""

TRIED: Final = "tried"
"""The name of a transform that is not in the file."""


@dataclass(frozen=True, slots=True)
class SampleRequest:
    """What is to be sampled.

    Args:
        records: How many offsets of each topic, the newest.
        topic: The only topic; all that have transforms, if it is empty.
        tried: A transform that is not in the file, and comes after those of the file.
    """

    records: int
    topic: str = ""
    tried: Chain = ()


@dataclass(frozen=True, slots=True)
class TopicSample:
    """The records of one topic of the source, and the names of its transforms."""

    topic: str
    transforms: tuple[str, ...]
    records: tuple[Sampled, ...] = ()

    @property
    def counts(self) -> dict[str, int]:
        """How many records there are of each outcome."""
        outcomes = [one.outcome for one in self.records]
        return {name: outcomes.count(name) for name in ("same", "changed", "dropped", "error")}

    @property
    def problems(self) -> Iterator[str]:
        """How many records fail, or become something else each time, and the first of them."""
        failing = [(one, one.error) for one in self.records if one.error]
        differing = [(one, _difference(one)) for one in self.records if one.differing]
        for what, found in (("fail", failing), ("differ", differing)):
            for one, text in found[:1]:
                many = f"{len(found)} of {len(self.records)} records of the sample {what}"
                place = f"{one.partition} offset {one.offset}"
                yield f"{self.topic}: {many}, the first: {place}: {text}"


@dataclass(frozen=True, slots=True)
class FlowSample:
    """The samples of a flow's topics, and how many *others* have transforms as well."""

    flow: Flow
    topics: tuple[TopicSample, ...] = ()
    others: int = 0

    @property
    def problems(self) -> tuple[str, ...]:
        """Why topics would be set aside, or their copies could not be compared, a line each."""
        return tuple(text for topic in self.topics for text in topic.problems)

    def document(self) -> dict[str, object]:
        """Returns what a command prints as JSON."""
        return {
            "flow": str(self.flow),
            "topics": [
                {
                    "topic": topic.topic,
                    "transforms": list(topic.transforms),
                    "counts": topic.counts,
                    "records": [_document(one) for one in topic.records],
                }
                for topic in self.topics
            ],
            "others": self.others,
            "problems": list(self.problems),
        }


def sample_topic(config: FlowConfig, wanted: SampleRequest) -> FlowSample:
    """Returns the sample of one topic of a flow whose clusters nobody has open.

    Raises:
        ReplicationError: As `sample_flow`.
    """
    with open_clusters(config) as clusters:
        topics = without_refused(look(config, *clusters), clusters[1])
        return sample_flow(config, clusters, topics, wanted)


def sample_flow(
    config: FlowConfig, clusters: tuple[Cluster, Cluster], topics: TopicPlan, wanted: SampleRequest
) -> FlowSample:
    """Returns what the transforms make of the newest records of *topics*.

    Starts Spark on this machine, for this answer only.

    Raises:
        NoAnswerError: The flow does not replicate the topic that is wanted.
        ConfigError: Spark does not take a transform.
        ClusterError: The source cannot be read.
        SetupError: Spark does not start here.
    """
    chains = _chains(config, topics, wanted)
    if not chains:
        return FlowSample(config.flow)
    source, _ = clusters
    others = len(chains) - MOST_TOPICS
    chains = dict(islice(chains.items(), MOST_TOPICS))
    windows = _windows(config, source, topics, wanted.records, chains)
    with IdleFlowClients(config, clusters) as clients, compared(config.flow):
        steps = {step.name: step for chain in chains.values() for step in chain}
        problems = [
            f"{'--' if name == TRIED else f'{config.flow}.replication.transforms.{name}.'}{part}: "
            f"{problem}"
            for name, step in steps.items()
            for part, problem in transform_problems(clients.spark, step)
        ]
        if problems:
            raise ConfigError(f"flow {config.flow}", problems)
        found = sample(clients.spark, config.source.consumer, windows, chains)
    samples = (
        TopicSample(
            topic,
            tuple(step.name for step in chain),
            tuple(one for one in found if one.partition.topic == topic),
        )
        for topic, chain in chains.items()
    )
    return FlowSample(config.flow, tuple(samples), max(0, others))


def text_of(data: bytes | None) -> str:
    """Returns *data* for a person: as text if it is one, else as hexadecimal digits."""
    if data is None:
        return "null"
    text = _text(data)
    return f"0x{data.hex()}" if text is None else text


def _chains(config: FlowConfig, topics: TopicPlan, wanted: SampleRequest) -> dict[str, Chain]:
    if wanted.topic and wanted.topic not in topics.topics:
        names = ", ".join(sorted(topics.topics)[:5]) or "none"
        raise NoAnswerError(
            f"--topic {wanted.topic!r}: {config.flow} does not replicate it; name a topic of the "
            f"source: {names}"
        )
    asked = [wanted.topic] if wanted.topic else sorted(topics.topics)
    chains = {topic: (*chain_of(config, topic), *wanted.tried) for topic in asked}
    return {topic: chain for topic, chain in chains.items() if chain}


def _windows(
    config: FlowConfig,
    source: Cluster,
    topics: TopicPlan,
    records: int,
    chains: Collection[str],
) -> dict[TopicPartition, tuple[int, int]]:
    """Returns where the newest records of the topics of *chains* are."""
    partitions = [tp for tp in topics.partitions if tp.topic in chains]
    starts, ends = source.earliest(partitions), source.log_ends(partitions, config.isolation)
    windows: dict[TopicPartition, tuple[int, int]] = {}
    for topic in chains:
        own = [tp for tp in partitions if tp.topic == topic and tp in starts and tp in ends]
        windows |= newest_windows({tp: (starts[tp], ends[tp]) for tp in own}, records)
    return windows


def _difference(one: Sampled) -> str:
    parts = " and ".join(one.differing)
    return (
        f"two evaluations differ in the {parts}: after a restart its copy would not be found "
        "again; write an expression that gives the same each time"
    )


def _document(one: Sampled) -> dict[str, object]:
    return {
        "partition": one.partition.partition,
        "offset": one.offset,
        "outcome": one.outcome,
        "error": one.error,
        "differing": list(one.differing),
        "before": _content(one.before),
        "after": None if one.after is None else _content(one.after),
    }


def _content(content: ShownRecord) -> dict[str, object]:
    return {
        "key": _value(content.key),
        "value": _value(content.value),
        "headers": [[name, _value(value)] for name, value in content.headers],
        "bytes": content.bytes,
    }


def _value(data: bytes | None) -> object:
    """Returns *data* for a program: a text, or what it is in base64."""
    if data is None:
        return None
    text = _text(data)
    return {"base64": base64.b64encode(data).decode()} if text is None else text


def _text(data: bytes) -> str | None:
    is_cut = len(data) == SHOWN_BYTES  # perhaps in the middle of a letter
    try:
        return data.decode("utf-8", "ignore" if is_cut else "strict")
    except UnicodeDecodeError:
        return None
