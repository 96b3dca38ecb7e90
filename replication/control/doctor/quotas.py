"""Whether a quota makes the brokers hold a flow back: nothing fails then, and the lag grows."""

from collections.abc import Iterator
from typing import Final

from replication.control.doctor.brokers import AskedCluster
from replication.control.doctor.judgement import Judgement, unknown
from replication.errors import ReplicationError
from replication.kafka.diagnosis import CallError
from replication.kafka.jvm import shared_jvm
from replication.kafka.quotas import READING, WRITING, Quotas

NOBODY: Final = "ANONYMOUS"
"""The user of a connection without a login."""


def look_at_quotas(asked: AskedCluster) -> Iterator[Judgement]:
    """Yields the quotas of the user of the file; nothing if it may not see them."""
    alias, admin = asked.alias, asked.admin
    what = f"quotas of {alias}"
    keys = {*(READING if asked.is_source else ()), *(WRITING if asked.is_target else ())}
    user, client_id = asked.user.partition(":")[2] or NOBODY, admin.get("client.id", "")
    try:
        with Quotas(shared_jvm(), alias, admin) as quotas:
            found = [
                quota
                for quota in quotas.read()
                if quota.key in keys and quota.holds_back(user, client_id)
            ]
            servers = quotas.servers
    except ReplicationError as error:
        if not (isinstance(error, CallError) and error.is_denied):
            yield unknown(what, str(error))
        return
    for quota in found:
        whom = " and ".join(f"{kind} {name or 'default'}" for kind, name in quota.of.items())
        line = quota.removal(servers)
        yield Judgement(
            what=what,
            found=f"the brokers hold clients back at {quota.key}={quota.value:.0f} ({whom})",
            verdict="warning",
            next_step=f"raise it if flows are to be faster than that, or remove it: {line}",
            commands=(line,),
        )
    if not found:
        yield Judgement(what=what, found="none holds this user back")
