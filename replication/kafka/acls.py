"""The access rules (ACLs) for topics of one cluster: reads, creates and removes them."""

from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeVar

from confluent_kafka import KafkaError
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from replication.errors import ClusterError
from replication.kafka.calls import Calls
from replication.model import AclPattern, TopicAcl

if TYPE_CHECKING:
    from concurrent.futures import Future

NO_AUTHORIZER: Final = "SECURITY_DISABLED"
NOT_PERMITTED: Final = "CLUSTER_AUTHORIZATION_FAILED"
MOST_PER_REQUEST: Final = 1000
"""A KRaft controller rejects requests that change too much at once."""

BindingT = TypeVar("BindingT", AclBinding, AclBindingFilter)
PATTERNS: Final[tuple[AclPattern, ...]] = ("LITERAL", "PREFIXED")


class NoAclsError(ClusterError):
    """The ACLs of a cluster cannot be used until an operator changes something.

    Args:
        text: What the operator reads.
        has_authorizer: Whether the cluster has ACLs, and the mirror's user lacks a permission.
    """

    def __init__(self, text: str, *, has_authorizer: bool) -> None:
        self.has_authorizer = has_authorizer
        super().__init__(text)


class TopicAcls:
    """The ACLs of one cluster's topics.

    Args:
        alias: The cluster's name in the configuration.
        calls: Its admin client.
    """

    def __init__(self, alias: str, calls: Calls) -> None:
        self._alias, self._calls = alias, calls

    def read(self) -> frozenset[TopicAcl]:
        """All ACLs for topics.

        Raises:
            NoAclsError: The cluster has no authorizer, or the user may not describe it.
            ClusterError: The cluster does not answer.
        """
        any_text: Any = None  # the type stubs want a text
        asked = AclBindingFilter(
            ResourceType.TOPIC,
            any_text,
            ResourcePatternType.ANY,
            any_text,
            any_text,
            AclOperation.ANY,
            AclPermissionType.ANY,
        )
        admin, call = self._calls.admin, "reading the ACLs of"
        results = self._calls.results(
            call,
            lambda keys, s: {key: admin.describe_acls(asked, request_timeout=s) for key in keys},
            ["topics"],
        )
        self._require_use("read", "DESCRIBE", results)
        found: list[AclBinding] = self._calls.require(call, results)["topics"]
        return frozenset(_read(found))

    def create(self, acls: Collection[TopicAcl]) -> dict[TopicAcl, str]:
        """Creates *acls*; those that exist stay as they are.

        Returns:
            The ACLs that the cluster rejected, and why.

        Raises:
            NoAclsError: The cluster has no authorizer, or the user may not alter it.
            ClusterError: The cluster does not answer.
        """

        def send(keys: Collection[TopicAcl], s: float) -> dict[TopicAcl, "Future[Any]"]:
            asked = {_as(AclBinding, acl): acl for acl in keys}
            futures = self._calls.admin.create_acls(list(asked), request_timeout=s)
            return {asked[binding]: future for binding, future in futures.items()}

        return self._change("creating ACLs", send, acls)

    def remove(self, acls: Collection[TopicAcl]) -> dict[TopicAcl, str]:
        """Removes *acls*, and nothing else; those that do not exist count as removed.

        Returns:
            The ACLs that the cluster did not remove, and why.

        Raises:
            NoAclsError: As `create`.
            ClusterError: As `create`.
        """

        def send(keys: Collection[TopicAcl], s: float) -> dict[TopicAcl, "Future[Any]"]:
            asked = {_as(AclBindingFilter, acl): acl for acl in keys}
            futures = self._calls.admin.delete_acls(list(asked), request_timeout=s)
            return {asked[wanted]: future for wanted, future in futures.items()}

        return self._change("removing ACLs", send, acls)

    def _change(
        self,
        call: str,
        send: Callable[[Collection[TopicAcl], float], Mapping[TopicAcl, "Future[Any]"]],
        acls: Collection[TopicAcl],
    ) -> dict[TopicAcl, str]:
        rejections: dict[TopicAcl, str] = {}
        waiting = iter(acls)
        while part := list(islice(waiting, MOST_PER_REQUEST)):
            results = self._calls.results(call, send, part)
            self._require_use("changed", "ALTER", results)
            errors = {acl: it for acl, it in results.items() if isinstance(it, KafkaError)}
            rejections |= {acl: error.str() for acl, error in errors.items()}
        return rejections

    def _require_use(self, verb: str, operation: str, results: Mapping[Any, Any]) -> None:
        """Raises a `NoAclsError` if *results* say that no request of this kind can succeed."""
        for result in results.values():
            code = result.name() if isinstance(result, KafkaError) else ""
            if code == NO_AUTHORIZER:
                text = f"cluster {self._alias} has no authorizer: topic ACLs are not copied"
                raise NoAclsError(text, has_authorizer=False)
            if code == NOT_PERMITTED:
                text = (
                    f"cluster {self._alias}: topic ACLs cannot be {verb}, so they are not copied; "
                    f"grant the mirror's user {operation} on the cluster (kafka-acls --add "
                    f"--operation {operation} --cluster), or set sync.topic.acls.enabled=false"
                )
                raise NoAclsError(text, has_authorizer=True)


def _read(bindings: Collection[AclBinding]) -> Iterator[TopicAcl]:
    """The bindings that this client understands: a newer broker may have others."""
    for it in bindings:
        kinds = (it.resource_pattern_type.name, it.operation.name, it.permission_type.name)
        pattern, operation, permission = map(str, kinds)
        if pattern in PATTERNS and operation != "UNKNOWN":
            literal: AclPattern = "LITERAL" if pattern == "LITERAL" else "PREFIXED"
            yield TopicAcl(it.name, literal, it.principal, it.host, operation, permission)


def _as(kind: type[BindingT], acl: TopicAcl) -> BindingT:
    """*acl* in one of the client's types: as a binding, or as a filter that matches it only."""
    return kind(
        ResourceType.TOPIC,
        acl.topic,
        ResourcePatternType[acl.pattern],
        acl.principal,
        acl.host,
        AclOperation[acl.operation],
        AclPermissionType[acl.permission],
    )
