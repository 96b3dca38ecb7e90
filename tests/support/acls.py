"""ACLs on real brokers, written and read without the code under test."""

from typing import Any, TypeVar

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from replication.demo.brokers import Broker
from replication.model import TopicAcl
from tests.support.waiting import wait_until

MYSELF = "User:ANONYMOUS"  # as whom every client of a listener without authentication comes
TIMEOUT_SECONDS = 60

Binding = TypeVar("Binding", AclBinding, AclBindingFilter)


def acl(permission: str, operation: str, topic: str, principal: str = "User:alice") -> TopicAcl:
    """An ACL of a topic; of a prefix, if *topic* ends in ``*`` and is more than that."""
    if topic != "*" and topic.endswith("*"):
        prefix = topic.removesuffix("*")
        return TopicAcl(prefix, "PREFIXED", principal, "*", operation, permission)
    return TopicAcl(topic, "LITERAL", principal, "*", operation, permission)


def create(broker: Broker, *acls: TopicAcl) -> None:
    """Creates *acls*; returns when the broker obeys them."""
    create_bindings(broker, [_topic_acl(AclBinding, acl) for acl in acls])


def remove(broker: Broker, *acls: TopicAcl) -> None:
    """Removes *acls*; returns when the broker no longer obeys them."""
    remove_bindings(broker, [_topic_acl(AclBindingFilter, acl) for acl in acls])


def forbid_descriptions(broker: Broker) -> None:
    """Takes DESCRIBE on the cluster from the tests' own user, and leaves it everything else.

    With a DENY alone, the broker itself would no longer be allowed to do anything. Nobody can ask
    the broker whether it has heard of it: wait for a refusal.
    """
    _create(broker, [_cluster_acl(AclBinding, *acl) for acl in _NO_DESCRIPTIONS])


def allow_descriptions(broker: Broker) -> None:
    """Takes back what `forbid_descriptions` did; the broker hears of it a moment later."""
    _remove(broker, [_cluster_acl(AclBindingFilter, *acl) for acl in _NO_DESCRIPTIONS])


def acls_of(broker: Broker, topic: str) -> set[TopicAcl]:
    """The ACLs of names and prefixes in which *topic* occurs."""
    anything: Any = None  # the type stubs want a text
    asked = AclBindingFilter(
        ResourceType.TOPIC,
        anything,
        ResourcePatternType.ANY,
        anything,
        anything,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    return {
        TopicAcl(
            acl.name,
            acl.resource_pattern_type.name,
            acl.principal,
            acl.host,
            acl.operation.name,
            acl.permission_type.name,
        )
        for acl in _found(broker, asked)
        if topic in acl.name
    }


_NO_DESCRIPTIONS = (
    (AclOperation.ALL, AclPermissionType.ALLOW),
    (AclOperation.DESCRIBE, AclPermissionType.DENY),
)


def create_bindings(broker: Broker, bindings: list[AclBinding]) -> None:
    """Creates *bindings*; returns when the broker obeys them: the controller answers first."""
    _create(broker, bindings)
    filters = [_filter(binding) for binding in bindings]
    wait_until(lambda: all(_found(broker, asked) for asked in filters), TIMEOUT_SECONDS)


def remove_bindings(broker: Broker, filters: list[AclBindingFilter]) -> None:
    """Removes what is there of each of *filters*; returns when the broker has it no more."""
    _remove(broker, filters)
    wait_until(lambda: not any(_found(broker, asked) for asked in filters), TIMEOUT_SECONDS)


def _create(broker: Broker, bindings: list[AclBinding]) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for created in admin.create_acls(bindings, request_timeout=TIMEOUT_SECONDS).values():
        created.result()


def _remove(broker: Broker, filters: list[AclBindingFilter]) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for removed in admin.delete_acls(filters, request_timeout=TIMEOUT_SECONDS).values():
        assert removed.result(), f"nothing to remove: {filters}"


def _found(broker: Broker, asked: AclBindingFilter) -> list[Any]:
    """What a broker, whose own list it is, has of *asked*."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    found: list[Any] = admin.describe_acls(asked, request_timeout=TIMEOUT_SECONDS).result()
    return found


def _filter(of: AclBinding) -> AclBindingFilter:
    """What finds this binding and no other one."""
    return AclBindingFilter(
        of.restype, of.name, of.resource_pattern_type, of.principal, of.host, of.operation,
        of.permission_type,
    )  # fmt: skip


def _topic_acl(kind: type[Binding], acl: TopicAcl) -> Binding:
    return kind(
        ResourceType.TOPIC,
        acl.topic,
        ResourcePatternType[acl.pattern],
        acl.principal,
        acl.host,
        AclOperation[acl.operation],
        AclPermissionType[acl.permission],
    )


def _cluster_acl(
    kind: type[Binding], operation: AclOperation, permission: AclPermissionType
) -> Binding:
    cluster = ResourceType.BROKER  # librdkafka's name for the cluster
    literal = ResourcePatternType.LITERAL
    return kind(cluster, "kafka-cluster", literal, MYSELF, "*", operation, permission)
