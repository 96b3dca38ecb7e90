"""Whether a remote topic has as many replicas in sync as its cluster wants for a record. Pure."""

from collections.abc import Mapping
from typing import Final

from replication.model import Topic, TopicSetting

KEY: Final = "min.insync.replicas"


def too_few_in_sync(
    topic: Topic, settings: Mapping[str, TopicSetting], alias: str, servers: str
) -> str:
    """Returns why *topic* takes no records that all replicas in sync must have; "" if it does.

    A topic with fewer replicas than that is not named: its brokers count all of them as enough.

    Args:
        topic: As its cluster describes it.
        settings: Its settings in effect.
        alias: Its cluster.
        servers: The ``bootstrap.servers`` of that cluster.
    """
    needed = int(settings[KEY].value or 1) if KEY in settings else 1
    short = {
        partition: count
        for partition, (count, replicas) in enumerate(topic.in_sync)
        if 0 < count < min(needed, replicas)  # without any it has no leader, as is said elsewhere
    }
    if not short:
        return ""
    first = next(iter(short))
    return (
        f"topic {topic.name} on {alias} takes no records: {KEY}={needed}, and {len(short)} of its "
        f"{topic.partitions} partitions have fewer replicas in sync (partition {first} has "
        f"{short[first]}); start the brokers that hold the others, or lower it with: kafka-configs "
        f"--bootstrap-server {servers} --alter --entity-type topics --entity-name {topic.name} "
        f"--add-config {KEY}={min(short.values())}"
    )
