"""Finds paused partitions whose next records the source is about to delete.

A paused partition stands still while retention goes on. Who looks only when it is resumed finds
that records are gone.
"""

import time
from collections.abc import Mapping
from typing import Final

from replication.kafka.api import Settings
from replication.kafka.cluster import Cluster
from replication.kafka.rejections import Rejections
from replication.model import TopicPartition

NEAR: Final = 0.1
"""The part of the retention that may be left until a partition is at risk."""

HOUR_MS: Final = 3_600_000


def find_at_risk(
    source: Cluster, next_offsets: Mapping[TopicPartition, int]
) -> dict[TopicPartition, str]:
    """Returns why those of *next_offsets* are at risk that are within a tenth of the retention.

    By time that is a record which is older than nine tenths of ``retention.ms``; by size, an offset
    within the first tenth of a log that ``retention.bytes`` has cut already. A partition with
    nothing left to copy is not at risk.

    Args:
        source: The cluster to read from.
        next_offsets: The next offset to copy of paused partitions.

    Raises:
        ClusterError: The source does not answer.
    """
    topics = {tp.topic for tp in next_offsets}
    settings = Rejections().call(source.topic_config, topics)
    deleting = {topic for topic in settings if "delete" in _text(settings[topic], "cleanup.policy")}
    at = {tp: offset for tp, offset in next_offsets.items() if tp.topic in deleting}
    ends, starts = source.log_ends(at), source.earliest(at)
    behind = {
        tp: offset for tp, offset in at.items() if starts.get(tp, 0) <= offset < ends.get(tp, 0)
    }
    found = _near_in_time(source, behind, settings)
    for tp, offset in behind.items():
        size = ends[tp] - starts[tp]
        is_cut = starts[tp] > 0 and _number(settings[tp.topic], "retention.bytes") > 0
        if is_cut and tp not in found and offset - starts[tp] <= NEAR * size:
            found[tp] = (
                f"its next offset {offset} is {offset - starts[tp]} after the first one that "
                f"retention.bytes has left of {size}"
            )
    return found


def _near_in_time(
    source: Cluster, behind: Mapping[TopicPartition, int], settings: Mapping[str, Settings]
) -> dict[TopicPartition, str]:
    now_ms = time.time_ns() // 1_000_000
    kept = {tp: _number(settings[tp.topic], "retention.ms") for tp in behind}
    times = {tp: round(now_ms - (1 - NEAR) * ms) for tp, ms in kept.items() if ms > 0}
    young = source.offsets_for_time(times)
    return {
        tp: f"records from its next offset {behind[tp]} to {until} are within a tenth of "
        f"retention.ms={kept[tp]} ({kept[tp] / HOUR_MS:g} h) of being deleted"
        for tp, until in young.items()
        if behind[tp] < until
    }


def _text(settings: Settings, key: str) -> str:
    setting = settings.get(key)
    return (setting.value if setting else None) or ""


def _number(settings: Settings, key: str) -> int:
    text = _text(settings, key)
    return int(text) if text.lstrip("-").isdecimal() else -1
