"""Reads the positions that MirrorMaker 2's workers store, from records of ``mm2-offsets.*``. Pure.

Kafka Connect writes JSON: the key ``["MirrorSourceConnector", {"cluster": "A", "partition": 0,
"topic": "orders"}]``, the value ``{"offset": 41}``, the last copied offset. Other connectors of the
worker write other keys into the same topic.
"""

from typing import Any

from replication.foreign_json import LARGEST, read_json
from replication.model import TopicPartition


def stored_position(
    source: str, key: bytes | None, value: bytes | None
) -> tuple[TopicPartition, int | None] | None:
    """Returns a partition of *source* and the next offset to copy; None for another record.

    The offset is None where the position was reset.
    """
    found = _json(key)
    if not isinstance(found, list) or not found or not isinstance(found[-1], dict):
        return None
    topic, partition = found[-1].get("topic"), found[-1].get("partition")
    if found[-1].get("cluster") != source or not isinstance(topic, str):
        return None
    if type(partition) is not int or not 0 <= partition < 2**31:
        return None
    content = _json(value)
    offset = content.get("offset") if isinstance(content, dict) else None
    tp = TopicPartition(topic, partition)
    return tp, offset + 1 if type(offset) is int and 0 <= offset < LARGEST else None


def _json(text: bytes | None) -> Any:  # noqa: ANN401 - any JSON
    try:
        return read_json(text or b"null")
    except ValueError:
        return None
