"""Until when the certificates are valid that a client has in its own stores: Java reads those."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Final

from py4j.java_gateway import JavaObject, JVMView
from py4j.protocol import Py4JError

from replication.config.clients.defaults import with_defaults
from replication.errors import first_line
from replication.figures.clocks import utc
from replication.java import java_class
from replication.kafka.jvm import java_map

MS: Final = 1000


def own_certificates(jvm: JVMView, admin: Mapping[str, str]) -> dict[str, datetime]:
    """Returns when the certificates end that the client with the properties *admin* has.

    By the property that names the store. Of its own certificates the first end counts; of those
    that it trusts the last one: a CA that has ended beside another one hurts nobody.

    Raises:
        ValueError: A store cannot be read.
    """
    if not admin.get("security.protocol", "").upper().endswith("SSL"):
        return {}
    try:
        settings = java_map(jvm, with_defaults("admin", admin))
        config_class = java_class(jvm, "org.apache.kafka.clients.admin.AdminClientConfig")
        parsed = config_class(settings).values()
        factory = java_class(jvm, "org.apache.kafka.common.security.ssl.DefaultSslEngineFactory")()
        factory.configure(parsed)
        own = list(_ends(factory.keystore(), only_keys=True))
        trusted = list(_ends(factory.truststore(), only_keys=False))
    except Py4JError as error:
        raise ValueError(first_line(error)) from error
    return {
        **({"ssl.keystore.location": min(own)} if own else {}),
        **({"ssl.truststore.location": max(trusted)} if trusted else {}),
    }


def _ends(store: JavaObject | None, *, only_keys: bool) -> Iterator[datetime]:
    """Yields when the certificates of *store* end."""
    if store is None:
        return
    names = store.aliases()
    while names.hasMoreElements():
        name = names.nextElement()
        if store.isKeyEntry(name) or not only_keys:
            ms = store.getCertificate(name).getNotAfter().getTime()
            yield utc(ms / MS)
