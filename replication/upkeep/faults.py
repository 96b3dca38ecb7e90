"""What is wrong with topics: one cause is said once, however many topics it is about. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from replication.kafka.api import join_names

SHOWN: Final = 3
REPLICATION_FACTOR: Final = "replication.factor"


@dataclass(frozen=True, slots=True)
class TopicFault:
    """What is wrong with one topic.

    Args:
        topic: Its name; "" for what is about no single one.
        text: As errors have it: the cause, then "; ", then the next step.
        alias: The cluster whose brokers are too few for its replication factor; else "".
        key: What the file calls that factor; the same.
        copy: The name of the topic on the other side, where the text may have that.
        is_internal: Whether the mirror itself writes it.
    """

    topic: str
    text: str
    alias: str = ""
    key: str = ""
    copy: str = ""
    is_internal: bool = False


@dataclass(frozen=True, slots=True)
class TopicCause:
    """Why something is wrong with topics: the text is as that of a fault."""

    subject: str
    text: str
    faults: tuple[TopicFault, ...]

    def __str__(self) -> str:
        is_named = len(self.faults) == 1 and not self.faults[0].alias  # in the text
        return self.text if is_named else f"{self.subject}: {self.text}"

    @property
    def is_internal(self) -> bool:
        """Whether it is about topics that the mirror itself writes, and no others."""
        return all(fault.is_internal for fault in self.faults)


def causes_of(faults: Iterable[TopicFault], brokers: Mapping[str, int]) -> Iterator[TopicCause]:
    """Yields the causes of *faults*: texts that differ by the names of topics alone are one.

    Factors that are too large are one as well. *brokers* tells how many a cluster has, by its
    alias.
    """
    groups = defaultdict[tuple[str, str], list[TopicFault]](list)
    for fault in faults:
        common = fault.text.replace(fault.copy or fault.topic, "").replace(fault.topic, "")
        groups[fault.alias, "" if fault.alias else common].append(fault)
    for (alias, _), some in groups.items():
        subject, text = _subject(some), some[0].text
        if alias:
            factor = max(1, brokers.get(alias, 1))
            lines = (f"{key}: {factor}" for key in sorted({fault.key for fault in some}))
            text = (
                f"cluster {alias} has {factor} broker(s), fewer than the replication factor; write "
                f"in the file: {', '.join(lines)}"
            )
        yield TopicCause(subject, text, tuple(some))


def _subject(faults: list[TopicFault]) -> str:
    if len(faults) == 1:
        return faults[0].topic
    own = [fault.topic for fault in faults if not fault.is_internal]
    internal = [fault.topic for fault in faults if fault.is_internal]
    kinds = (("topic", own), ("internal topic", internal))
    found = (f"{len(some)} {kind}{'s' if len(some) > 1 else ''}" for kind, some in kinds if some)
    return f"{' and '.join(found)} ({join_names(own or internal, SHOWN)})"
