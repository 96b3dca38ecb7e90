"""The requests that create topics: what is in one, and how many topics. No I/O.

A controller of Kafka rejects all topics of a request that takes more than 10 000 metadata records
(``POLICY_VIOLATION``: "Excessively large number of partitions per request").
"""

from collections.abc import Iterable, Iterator

from replication.model import NewTopic

RECORDS_AT_ONCE = 2_000
"""Far fewer, so that the answer comes within the timeout."""


def requests(topics: Iterable[NewTopic]) -> Iterator[dict[str, NewTopic]]:
    """Yields *topics* by name, one group per request; a topic of many partitions is alone."""
    group: dict[str, NewTopic] = {}
    records = 0
    for topic in topics:
        own = 1 + topic.partitions + len(topic.configs)
        if group and records + own > RECORDS_AT_ONCE:
            yield group
            group, records = {}, 0
        group[topic.name] = topic
        records += own
    if group:
        yield group
