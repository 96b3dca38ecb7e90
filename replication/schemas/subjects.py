"""Names of subjects, and what a copied topic's are called on the target. Pure.

By the strategies of Confluent's serialisers: a subject is ``TOPIC-key`` and ``TOPIC-value``,
``TOPIC-RECORD``, or the record's own name, which no topic changes.
"""

from collections.abc import Collection, Mapping
from typing import get_args

from replication.schemas.values import Part


def topic_of(subject: str, topics: Collection[str]) -> str | None:
    """Returns which of *topics* a subject belongs to by its name, the longest; None for none."""
    for part in get_args(Part):
        if subject.endswith(f"-{part}"):  # a record's name has no hyphen
            topic = subject.removesuffix(f"-{part}")
            return topic if topic in topics else None
    parts = subject.split("-")
    prefixes = ("-".join(parts[:end]) for end in range(len(parts) - 1, 0, -1))
    return next((prefix for prefix in prefixes if prefix in topics), None)


def on_target(subject: str, remote: Mapping[str, str]) -> str:
    """Returns what *subject* is called on the target.

    Args:
        subject: On the source.
        remote: The remote topic of each copied topic.
    """
    topic = topic_of(subject, remote.keys())
    return subject if topic is None else remote[topic] + subject[len(topic) :]


def subject_for(
    uses: Collection[str], topic: str, part: Part, remote: Mapping[str, str]
) -> tuple[str, str]:
    """Returns the subject to take a schema from, and the one to register it under.

    Args:
        uses: The subjects on the source that have the schema; it may be none.
        topic: The topic whose record carries its id.
        part: Where it carries it.
        remote: The remote topic of each copied topic.
    """
    own = f"{topic}-{part}"
    records = [name for name in sorted(uses) if not name.endswith(("-key", "-value"))]
    of_topic = [name for name in records if topic_of(name, remote.keys()) == topic]
    of_none = [name for name in records if topic_of(name, remote.keys()) is None]
    found = own if own in uses else next(iter([*of_topic, *of_none]), own)
    return found, on_target(found, remote)
