"""MirrorMaker 2's keys that have no effect here, and those that are rejected. Pure data."""

from typing import Final

WORKER_KEY: Final = "a key of Kafka Connect; the mirror has no workers or connectors"
_REST: Final = "a key of Kafka Connect's REST server, which the mirror does not run"
_STORAGE: Final = (
    "a key of Kafka Connect's internal topics; the mirror stores positions in Delta tables"
)
_STATUS: Final = (
    "a setting of Kafka Connect's status topic, which the mirror creates with settings of its own"
)
_CONVERTER: Final = "records are always copied as unchanged bytes"
_EXACTLY: Final = "a flow writes each record once without transactions; see the guarantees"
_ERRORS: Final = "the mirror sets the topic of a record that fails aside"
_ALWAYS: Final = "removed in Kafka 4.0, where it is always on"
_SRM: Final = "a key of Cloudera's SRM service; the mirror's tables and log take its place"
_REVERSE: Final = (
    "a key of Cloudera's SRM; the command failback finds the groups' offsets on the source"
)
_METRICS: Final = "the mirror does not use JMX metric reporters"


def _all(reason: str, names: str) -> dict[str, str]:
    return dict.fromkeys(names.split(), reason)


IGNORED: Final = {
    **_all(
        WORKER_KEY,
        """tasks.max.enforce name connector.class connector.plugin.version
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
        config.storage.topic config.storage.replication.factor offsets.storage.topic
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
        metrics.recording.level auto.include.jmx.reporter""",
    ),
    **_all(_ALWAYS, "use.incremental.alter.configs add.source.alias.to.metrics"),
    **_all(_REVERSE, "emit.reverse.checkpoints.enabled"),
    **_all(_SRM, "metrics.period metrics.topic.creation.for.possible.flows.enabled"),
}
"""Name -> reason; at top level, after ``A.`` and after ``A->B.``."""

IGNORED_PREFIXES: Final = {
    "admin.listeners.https.": _REST,
    "listeners.https.": _REST,
    "config.storage.": _STORAGE,
    "offset.storage.": _STORAGE,
    "status.storage.": _STATUS,
    "key.converter.": _CONVERTER,
    "value.converter.": _CONVERTER,
    "header.converter.": _CONVERTER,
    "task.": WORKER_KEY,
    "worker.": WORKER_KEY,
    "topic.creation.": WORKER_KEY,
    "metrics.context.": _METRICS,
    "plugin.": WORKER_KEY,
    "errors.deadletterqueue.": _ERRORS,
    "streams.replication.manager.": _SRM,
}
"""Prefix of names -> reason."""

REMOVED: Final = {
    "topics.blacklist": "topics.exclude",
    "groups.blacklist": "groups.exclude",
    "config.properties.blacklist": "config.properties.exclude",
}
"""Keys that Kafka 4.0 removed -> the key that replaced each."""

NEVER: Final = {
    "topics.whitelist": "never a key of MirrorMaker 2; write topics",
    "groups.whitelist": "never a key of MirrorMaker 2; write groups",
}
"""Names that look like keys and would change what is replicated -> what to write instead."""

CHAINS: Final = {
    "A->B.transforms": "read as replication.transforms where that does the same, else rejected",
    "A->B.predicates": "read with the transforms that they belong to",
}
"""Kafka Connect's keys for what changes records -> what becomes of them."""


def ignored_reason(name: str) -> str | None:
    """Returns why *name* has no effect; None if *name* is not ignored."""
    if name in IGNORED:
        return IGNORED[name]
    return next((why for prefix, why in IGNORED_PREFIXES.items() if name.startswith(prefix)), None)
