"""The access rules (ACLs) for topics of one cluster: reads, creates and removes them.

This is the Java client, because confluent-kafka 2.16.1 shows no ACLs at all, instead of an error,
where there is no authorizer or a permission is missing. A sync would take them for removed.
"""

import re
from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Final

from py4j.java_gateway import JavaObject

from replication.errors import ClusterError
from replication.java import java_class
from replication.kafka.api import Call
from replication.kafka.diagnosis import CallError
from replication.kafka.java_admin import JavaAdmin
from replication.kafka.reader import chunks
from replication.model import AclPattern, TopicAcl

NO_AUTHORIZER: Final = "SECURITY_DISABLED"
NOT_PERMITTED: Final = "CLUSTER_AUTHORIZATION_FAILED"
MOST_PER_REQUEST: Final = 1000
"""A KRaft controller rejects requests that change too much at once."""

# The text of a binding, because every getter is a round trip to the JVM.
BINDING: Final = re.compile(
    r"\(pattern=ResourcePattern\(resourceType=TOPIC, name=(\S+), patternType=(LITERAL|PREFIXED)\), "
    r"entry=\(principal=(.*), host=([^,]*), operation=(\w+), permissionType=(\w+)\)\)",
    re.DOTALL,
)


class NoAclsError(ClusterError):
    """The ACLs of a cluster cannot be used until an operator changes something.

    Args:
        text: What the operator reads.
        has_authorizer: Whether the cluster has ACLs, and the mirror's user lacks a permission.
    """

    def __init__(self, text: str, *, has_authorizer: bool) -> None:
        self.has_authorizer = has_authorizer
        super().__init__(text)


class TopicAcls(JavaAdmin, AbstractContextManager["TopicAcls"]):
    """The ACLs of one cluster's topics."""

    role = "acls"

    def read(self) -> frozenset[TopicAcl]:
        """Reads all ACLs for topics.

        Raises:
            NoAclsError: The cluster has no authorizer, or the user may not describe it.
            CallError: The cluster does not answer.
        """
        common = self._jvm.org.apache.kafka.common
        topics, any_pattern = common.resource.ResourceType.TOPIC, common.resource.PatternType.ANY
        pattern = common.resource.ResourcePatternFilter(topics, None, any_pattern)
        wanted = common.acl.AclBindingFilter(pattern, common.acl.AccessControlEntryFilter.ANY)
        with self._usable("read", "DESCRIBE"), self.named(Call("reading the ACLs of topics")):
            found = self._admin.describeAcls(wanted).values().get()
        return frozenset(read_binding(str(binding.toString())) for binding in found)

    def create(self, acls: Collection[TopicAcl]) -> dict[TopicAcl, str]:
        """Creates *acls*; those that exist stay as they are.

        Returns:
            The ACLs that the cluster rejected, and why.

        Raises:
            NoAclsError: The cluster has no authorizer, or the user may not alter it.
            CallError: The cluster does not answer.
        """
        rejections: dict[TopicAcl, str] = {}
        for part in chunks(acls, MOST_PER_REQUEST):
            bindings = {acl: self._binding(acl) for acl in part}
            answer = self._admin.createAcls(self._list(bindings.values())).values()
            for acl, binding in bindings.items():
                self._settle(acl, "creating", answer.get(binding), rejections)
        return rejections

    def remove(self, acls: Collection[TopicAcl]) -> dict[TopicAcl, str]:
        """Removes *acls*, and nothing else; those that do not exist count as removed.

        Returns:
            The ACLs that the cluster did not remove, and why.

        Raises as `create` does.
        """
        rejections: dict[TopicAcl, str] = {}
        for part in chunks(acls, MOST_PER_REQUEST):
            filters = {acl: self._binding(acl).toFilter() for acl in part}
            answer = self._admin.deleteAcls(self._list(filters.values())).values()
            for acl, wanted in filters.items():
                results = self._settle(acl, "removing", answer.get(wanted), rejections)
                failures = [result.exception() for result in results.values()] if results else []
                for failure in filter(None, failures):
                    rejections[acl] = str(failure.getMessage())
        return rejections

    def _settle(
        self, acl: TopicAcl, verb: str, future: JavaObject, rejections: dict[TopicAcl, str]
    ) -> JavaObject:
        """Returns *future*'s result, or None where *acl* was rejected, which is then noted."""
        try:
            with self._usable("changed", "ALTER"), self.named(Call(f"{verb} an ACL ({acl})")):
                return future.get()
        except CallError as error:
            if error.is_temporary:
                raise
            rejections[acl] = str(error)
            return None

    def _binding(self, acl: TopicAcl) -> JavaObject:
        common = self._jvm.org.apache.kafka.common
        kind = common.resource.PatternType.valueOf(acl.pattern)
        topics = common.resource.ResourceType.TOPIC
        entry = common.acl.AccessControlEntry(
            acl.principal,
            acl.host,
            common.acl.AclOperation.valueOf(acl.operation),
            common.acl.AclPermissionType.valueOf(acl.permission),
        )
        return common.acl.AclBinding(
            common.resource.ResourcePattern(topics, acl.topic, kind), entry
        )

    def _list(self, items: Collection[JavaObject]) -> JavaObject:
        java = java_class(self._jvm, "java.util.ArrayList")()
        for item in items:
            java.add(item)
        return java

    @contextmanager
    def _usable(self, verb: str, operation: str) -> Iterator[None]:
        """Turns an error after which no such call can succeed into a `NoAclsError`."""
        try:
            yield
        except CallError as error:
            if error.code == NO_AUTHORIZER:
                text = f"cluster {self.alias} has no authorizer: topic ACLs are not copied"
                raise NoAclsError(text, has_authorizer=False) from None
            if error.code == NOT_PERMITTED:
                text = (
                    f"cluster {self.alias}: topic ACLs cannot be {verb}, so they are not copied; "
                    f"grant the mirror's user {operation} on the cluster (kafka-acls --add "
                    f"--operation {operation} --cluster), or set sync.topic.acls.enabled=false"
                )
                raise NoAclsError(text, has_authorizer=True) from None
            raise


def read_binding(text: str) -> TopicAcl:
    """Reads the ACL that *text*, a binding of the Java client as text, describes.

    A principal may contain anything, and what follows it may not.

    Raises:
        ValueError: It is no such text: another client version writes another one.
    """
    match = BINDING.fullmatch(text)
    if match is None:
        raise ValueError(f"not the text of an ACL of a topic: {text}")
    topic, pattern, principal, host, operation, permission = match.groups()
    kind: AclPattern = "LITERAL" if pattern == "LITERAL" else "PREFIXED"
    return TopicAcl(topic, kind, principal, host, operation, permission)
