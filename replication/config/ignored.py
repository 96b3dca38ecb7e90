"""MirrorMaker 2's keys that have no effect here, and those that are rejected. Pure data."""

from typing import Final

_CONNECT: Final = "a key of Kafka Connect; the mirror has no workers or connectors"
_REST: Final = "a key of Kafka Connect's REST server, which the mirror does not run"
_STORAGE: Final = (
    "a key of Kafka Connect's internal topics; the mirror stores positions in Delta tables"
)
_CONVERTER: Final = "records are always copied as unchanged bytes"
_EXACTLY: Final = "a flow writes each record once without transactions; see the guarantees"
_ERRORS: Final = "the mirror never drops or alters a record"
_METRICS: Final = "the mirror does not use JMX metric reporters"


def _all(reason: str, names: str) -> dict[str, str]:
    return dict.fromkeys(names.split(), reason)


IGNORED: Final = {
    **_all(
        _CONNECT,
        """tasks.max tasks.max.enforce name connector.class connector.plugin.version
        config.action.reload group.id plugin.path plugin.discovery connect.protocol
        connector.client.config.override.policy rebalance.timeout.ms session.timeout.ms
        heartbeat.interval.ms scheduled.rebalance.max.delay.ms worker.sync.timeout.ms
        worker.unsync.backoff.ms task.shutdown.graceful.timeout.ms topic.tracking.enable
        topic.tracking.allow.reset topic.creation.enable topic.creation.groups
        inter.worker.key.generation.algorithm inter.worker.key.size inter.worker.key.ttl.ms
        inter.worker.signature.algorithm inter.worker.verification.algorithms
        consumer.poll.timeout.ms admin.timeout.ms""",
    ),
    **_all(
        _REST,
        """dedicated.mode.enable.internal.rest listeners admin.listeners rest.advertised.host.name
        rest.advertised.listener rest.advertised.port rest.extension.classes
        response.http.headers.config access.control.allow.methods access.control.allow.origin
        ssl.client.auth""",
    ),
    **_all(
        _STORAGE,
        """offset.storage.topic offset.storage.partitions offset.storage.replication.factor
        config.storage.topic config.storage.replication.factor status.storage.topic
        status.storage.partitions status.storage.replication.factor offsets.storage.topic
        offset.flush.interval.ms offset.flush.timeout.ms offset.storage.file.filename""",
    ),
    **_all(
        _CONVERTER,
        """key.converter value.converter header.converter key.converter.plugin.version
        value.converter.plugin.version header.converter.plugin.version""",
    ),
    **_all(
        _EXACTLY,
        """exactly.once.source.support exactly.once.support transaction.boundary
        transaction.boundary.interval.ms""",
    ),
    **_all(
        _ERRORS,
        """errors.tolerance errors.retry.timeout errors.retry.delay.max.ms errors.log.enable
        errors.log.include.messages""",
    ),
    **_all(
        _METRICS,
        """metric.reporters metrics.num.samples metrics.sample.window.ms
        metrics.recording.level""",
    ),
}
"""Name -> reason; at top level, after ``A.`` and after ``A->B.``."""

IGNORED_PREFIXES: Final = {
    "admin.listeners.https.": _REST,
    "listeners.https.": _REST,
    "config.storage.": _STORAGE,
    "offset.storage.": _STORAGE,
    "status.storage.": _STORAGE,
    "key.converter.": _CONVERTER,
    "value.converter.": _CONVERTER,
    "header.converter.": _CONVERTER,
    "task.": _CONNECT,
    "worker.": _CONNECT,
    "topic.creation.": _CONNECT,
    "metrics.context.": _METRICS,
    "plugin.": _CONNECT,
}
"""Prefix of names -> reason."""

REMOVED: Final = {
    "topics.blacklist": "removed in Kafka 4.0; write topics.exclude",
    "topics.whitelist": "never a key of MirrorMaker 2; write topics",
    "groups.blacklist": "removed in Kafka 4.0; write groups.exclude",
    "config.properties.blacklist": "removed in Kafka 4.0; write config.properties.exclude",
    "use.incremental.alter.configs": "removed in Kafka 4.0, where it is always on; remove it",
    "add.source.alias.to.metrics": "removed in Kafka 4.0, where it is always on; remove it",
    "auto.include.jmx.reporter": "removed in Kafka 4.0; remove it",
}
"""Name -> what to write instead."""

UNSUPPORTED: Final = {
    "transforms": "transforms are not supported, and the records would differ without them",
    "predicates": "predicates belong to transforms, which are not supported",
}
"""Keys that would change the records: any value but an empty one is a problem."""


def ignored_reason(name: str) -> str | None:
    """Why *name* has no effect; None if *name* is not ignored."""
    if name in IGNORED:
        return IGNORED[name]
    return next((why for prefix, why in IGNORED_PREFIXES.items() if name.startswith(prefix)), None)
