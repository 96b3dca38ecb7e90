"""Quotas of a broker; confluent-kafka cannot set them."""

from collections.abc import Mapping

from replication.demo.brokers import Broker
from replication.kafka.jvm import java_map, shared_jvm


def set_quota(broker: Broker, of: Mapping[str, str], key: str, value: float | None) -> None:
    """Sets the quota *key* of an entity, such as ``{"user": "mirror"}``; None removes it."""
    jvm = shared_jvm()
    quota = jvm.org.apache.kafka.common.quota
    change = quota.ClientQuotaAlteration(
        quota.ClientQuotaEntity(java_map(jvm, dict(of))),
        jvm.java.util.List.of(quota.ClientQuotaAlteration.Op(key, value)),
    )
    servers = java_map(jvm, {"bootstrap.servers": broker.bootstrap})
    admin = jvm.org.apache.kafka.clients.admin.Admin.create(servers)
    try:
        admin.alterClientQuotas(jvm.java.util.List.of(change)).all().get()
    finally:
        admin.close()
