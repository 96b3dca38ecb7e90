"""The quotas of a cluster, which make its brokers hold clients back without an error."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final

from replication.java import java_class
from replication.kafka.call import Call
from replication.kafka.java_admin import JavaAdmin

READING: Final = ("consumer_byte_rate", "request_percentage")
WRITING: Final = ("producer_byte_rate", "request_percentage")
TOOLS_NAMES: Final[Mapping[str, str]] = {"user": "users", "client-id": "clients"}


@dataclass(frozen=True, slots=True)
class Quota:
    """A limit.

    Args:
        of: Whom it limits: names of users and clients by ``user`` and ``client-id``; None for all
            that have no quota of their own.
        key: What it limits, ``producer_byte_rate``.
        value: In bytes a second, or percent of a thread of the broker.
    """

    of: Mapping[str, str | None]
    key: str
    value: float

    def holds_back(self, user: str, client_id: str) -> bool:
        """Returns whether it may be that of a client."""
        own = {"user": user, "client-id": client_id}
        return bool(self.of) and all(
            kind in own and name in (None, own[kind]) for kind, name in self.of.items()
        )

    def removal(self, servers: str) -> str:
        """Returns the line of kafka-configs that removes it."""
        whom = " ".join(
            f"--entity-type {TOOLS_NAMES[kind]} "
            + ("--entity-default" if name is None else f"--entity-name '{name}'")
            for kind, name in self.of.items()
        )
        return (
            f"kafka-configs --bootstrap-server {servers} --alter {whom} --delete-config {self.key}"
        )


class Quotas(JavaAdmin, AbstractContextManager["Quotas"]):
    """The quotas of one cluster."""

    role = "quotas"

    def read(self) -> Iterator[Quota]:
        """Yields all of them.

        Raises:
            CallError: The user may not DESCRIBE_CONFIGS the cluster, or it does not answer.
        """
        every = java_class(self._jvm, "org.apache.kafka.common.quota.ClientQuotaFilter").all()
        with self.named(Call("reading the quotas")):
            found = self._admin.describeClientQuotas(every).entities().get()
        for entity in found.keySet():
            of = dict(entity.entries())
            for key, value in dict(found.get(entity)).items():
                yield Quota(of, key, value)
