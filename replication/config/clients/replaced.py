"""Client properties that the mirror sets itself, so that a file's value has no effect. Pure data.

The guarantees rest on some of them. MirrorMaker 2's files often weaken these (``acks=1``,
``retries=0``): such a file runs, with the mirror's own value and a warning.
"""

import re
from typing import Final

from replication.config.clients.java_keys import Role

_BYTES: Final = "records are copied as bytes"
_NO_GROUP: Final = "the mirror reads without a consumer group"
_ORDER: Final = "so that no record is lost, repeated or reordered"
_UNLIMITED: Final = "2147483647"

_ALWAYS: Final = {
    "key.serializer": _BYTES,
    "value.serializer": _BYTES,
    "key.deserializer": _BYTES,
    "value.deserializer": _BYTES,
    "group.id": _NO_GROUP,
    "group.instance.id": _NO_GROUP,
    "group.protocol": _NO_GROUP,
    "group.remote.assignor": _NO_GROUP,
    "partition.assignment.strategy": _NO_GROUP,
    "auto.commit.interval.ms": _NO_GROUP,
    "partitioner.class": "a record keeps its partition number",
    "transaction.timeout.ms": "the mirror writes without transactions",
}
_WEAKENED: Final = {
    "interceptor.classes": "the mirror uses its own interceptors; others could alter records",
    "transactional.id": "the mirror writes without transactions",
}
_GUARANTEED: Final = {
    "acks": (r"all|-1", f"the mirror always writes with acks=all, {_ORDER}"),
    "enable.idempotence": (r"(?i:true)", f"the mirror always writes idempotently, {_ORDER}"),
    "retries": (_UNLIMITED, f"the mirror retries without limit, {_ORDER}"),
    "delivery.timeout.ms": (_UNLIMITED, f"the mirror never gives a record up, {_ORDER}"),
    "max.in.flight.requests.per.connection": (
        r"[1-5]",
        f"the mirror has at most 5 requests in flight, {_ORDER}",
    ),
}
"""Property of the producer -> the values that are used as they are, and why others are not."""


def replacement(role: Role | None, name: str, value: str) -> tuple[str, bool] | None:
    """Returns why the mirror does not use *value*, and whether that weakens what the file asks for.

    Args:
        role: The kind of client; None for a property of every client of a cluster.
        name: The property.
        value: Its value in the file.

    Returns:
        None if the value is used. The flag is True for what deserves a warning, not a note.
    """
    if name in _ALWAYS:
        return _ALWAYS[name], False
    if name in _WEAKENED:
        return _WEAKENED[name], True
    if name == "enable.auto.commit" and value.lower() != "false":
        return _NO_GROUP, False
    if name == "allow.auto.create.topics" and value.lower() != "false":
        return "the mirror creates no topic on a source; a deleted one would come back", True
    if role in ("producer", None) and name in _GUARANTEED:
        allowed, reason = _GUARANTEED[name]
        return None if re.fullmatch(allowed, value) else (reason, True)
    return None


def is_replaced(role: Role, name: str, value: str) -> bool:
    """Returns whether the *role* client must not get *value* from the file."""
    return replacement(role, name, value) is not None
