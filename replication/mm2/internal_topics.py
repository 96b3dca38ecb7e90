"""What a topic must be like that MirrorMaker 2's clients read: compacted, one partition. Pure."""

from collections.abc import Iterator

POLICY = "compact"


def find_faults(
    topic: str, partitions: int, cleanup_policy: str | None, servers: str
) -> Iterator[str]:
    """Yields what is wrong with an existing topic, and the command for it; nothing if it is fit.

    Args:
        topic: Its name.
        partitions: How many it has.
        cleanup_policy: Its ``cleanup.policy``; None if that is unknown.
        servers: The ``bootstrap.servers`` of its cluster.
    """
    if cleanup_policy not in (POLICY, None):
        yield (
            f"topic {topic} has cleanup.policy={cleanup_policy}, so its cluster deletes records "
            f"that its readers need; correct it with: kafka-configs --bootstrap-server {servers} "
            f"--alter --entity-type topics --entity-name {topic} --add-config "
            f"cleanup.policy={POLICY}"
        )
    if partitions != 1:
        yield (
            f"topic {topic} has {partitions} partitions, but only partition 0 is written and read; "
            "to have it created again with one, which loses its records, stop the mirror and run: "
            f"kafka-topics --bootstrap-server {servers} --delete --topic {topic}"
        )


def find_letter_faults(topic: str, cleanup_policy: str | None, servers: str) -> Iterator[str]:
    """Yields what is wrong with an existing topic of dead letters; arguments as of `find_faults`.

    A compacted topic takes no record without a key, and of several letters with one key it keeps
    the last.
    """
    if POLICY in (cleanup_policy or ""):
        yield (
            f"topic {topic} has cleanup.policy={cleanup_policy}, so its cluster deletes dead "
            f"letters; correct it with: kafka-configs --bootstrap-server {servers} --alter "
            f"--entity-type topics --entity-name {topic} --add-config cleanup.policy=delete"
        )
