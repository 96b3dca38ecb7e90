"""Where the logs of both sides begin and end, at one moment. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from replication.model import TopicPartition
from replication.offsets.epochs import Epochs


@dataclass(frozen=True, slots=True)
class LogSpans:
    """Offsets of a plan's partitions, by upstream partition; a partition may be absent.

    Args:
        earliest: The source's first offsets.
        source_ends: The source's log ends.
        target_ends: The log ends of the remote partitions.
        replaced: The upstream topics that were not those of the plan any more when the offsets had
            been read.
        held: Remote partitions of other topics or partitions of the flow, to which records were on
            their way all that time.
        epochs: Those of today's leaders; unknown where a partition is absent.
        source_cuts: Where the source's logs were cut below what was copied, as brokers say.
        target_cuts: The same for remote partitions.
        unsure: Partitions of which no broker says whether the source, or the target, was cut.
    """

    earliest: Mapping[TopicPartition, int]
    source_ends: Mapping[TopicPartition, int]
    target_ends: Mapping[TopicPartition, int]
    replaced: frozenset[str] = frozenset()
    held: frozenset[TopicPartition] = frozenset()
    epochs: Mapping[TopicPartition, Epochs] = field(default_factory=dict)
    source_cuts: Mapping[TopicPartition, int] = field(default_factory=dict)
    target_cuts: Mapping[TopicPartition, int] = field(default_factory=dict)
    unsure: tuple[frozenset[TopicPartition], frozenset[TopicPartition]] = frozenset(), frozenset()

    def source(self, tp: TopicPartition) -> tuple[int, int]:
        """Returns the source's first offset of *tp*, and its log end."""
        return self.earliest[tp], self.source_ends[tp]
