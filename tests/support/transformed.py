"""A topic with transforms: its records, what they must become, and what the target holds."""

from collections.abc import Callable, Iterator

from replication.demo.compare import fits
from replication.demo.topic_log import Content, TopicLog
from replication.demo.workload import ProducedRecord
from replication.model import TopicPartition
from replication.offsets.map import OffsetMap
from tests.support.local import Clusters
from tests.support.topics import now_ms

SETTINGS = {
    "A->B.replication.transforms": "seventh, mask",
    "A->B.replication.transforms.seventh.topics": ".*",
    "A->B.replication.transforms.seventh.filter": (
        "cast(get_json_object(cast(value as string), '$.n') as int) % 7 = 0"
    ),
    "A->B.replication.transforms.mask.topics": ".*",
    "A->B.replication.transforms.mask.value": (
        "cast(regexp_replace(cast(value as string), '[^\"]*@[^\"]*', '***') as binary)"
    ),
    "A->B.replication.transforms.mask.headers.remove": "secret",
    "A->B.replication.transforms.mask.headers.add.origin": "cast(topic as binary)",
}
"""Keeps one record of seven, masks an address, removes a header and adds one."""

Becomes = Callable[[str, Content], Content | None]
"""What a record of a topic becomes; None if it is dropped."""


def people(partitions: int, start: int = 0) -> Iterator[ProducedRecord]:
    """Endless records with a number, an address, and two headers."""
    number = start
    while True:
        value = b'{"n":%d,"email":"user-%d@example.org"}' % (number, number)
        headers = (("secret", b"%d" % number), ("kept", None))
        key = b"k%d" % number
        yield ProducedRecord(
            partition=number // 7 % partitions,
            key=key,
            value=value,
            headers=headers,
            timestamp_ms=now_ms(),
        )
        number += 1


def masked_seventh(topic: str, record: Content) -> Content | None:
    """What `SETTINGS` make of a record of `people`."""
    number = int(record.value.split(b":")[1].split(b",")[0]) if record.value else 0
    if number % 7:
        return None
    return record._replace(
        value=b'{"n":%d,"email":"***"}' % number,
        headers=(("kept", None), ("origin", topic.encode())),
    )


def expected(
    clusters: Clusters, topic: str, partition: int, becomes: Becomes
) -> list[tuple[int, Content]]:
    """What a remote partition must hold, with the offsets of the originals."""
    log = TopicLog(clusters[0].bootstrap, topic, "read_committed")
    made = ((one.offset, becomes(topic, one.content)) for one in log.records(partition))
    return [(offset, content) for offset, content in made if content is not None]


def assert_transformed(
    clusters: Clusters,
    topic: str,
    partitions: int,
    becomes: Becomes = masked_seventh,
    *,
    is_timed: bool = True,
) -> None:
    """Asserts that the remote topic holds what the topic's records become, once and in order.

    Without *is_timed*, copies have times of their own.
    """
    log = TopicLog(clusters[1].bootstrap, f"A.{topic}", "read_committed")

    def shown(one: Content) -> Content:
        return one if is_timed else one._replace(timestamp_ms=0)

    for partition in range(partitions):
        wanted = [shown(content) for _, content in expected(clusters, topic, partition, becomes)]
        found = [shown(one.content) for one in log.records(partition)]
        assert len(found) == len(wanted), f"{topic}-{partition}"
        assert found == wanted, f"{topic}-{partition}"


def unsafe_answers(
    clusters: Clusters,
    topic: str,
    partition: int,
    offsets: OffsetMap,
    becomes: Becomes = masked_seventh,
) -> list[str]:
    """What the map says wrongly of a group that has read up to some record of the source."""
    log = TopicLog(clusters[0].bootstrap, topic, "read_committed")
    tp, wrong, copied = TopicPartition(topic, partition), [], 0
    for one in log.records(partition):
        answer = offsets.translate(one.offset)
        if not fits(answer, copied):
            wrong.append(f"{tp} offset {one.offset} is at {copied}, not {answer}")
        copied += becomes(topic, one.content) is not None
    return wrong
