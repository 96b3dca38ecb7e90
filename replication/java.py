"""The classes of a JVM, as py4j shows them."""

from typing import Any, Final

from py4j.java_gateway import GatewayClient, JavaClass, JavaMember
from py4j.protocol import Py4JError

JVM_GONE: Final = (Py4JError, ConnectionError)
"""What py4j raises once the JVM has ended: the second where it cannot even connect."""


def java_class(jvm: Any, name: str) -> Any:  # noqa: ANN401 - py4j's own
    """Returns the class *name*; what is no `JavaClass` if the *jvm* has none.

    ``jvm.java.util.HashMap`` would ask for ``java`` and ``java.util`` first: for each of them Java
    looks in vain for a class in some 250 jars.
    """
    return getattr(jvm, name)


def known_class(jvm: Any, name: str) -> Any:  # noqa: ANN401 - as above
    """Returns the class *name*; None if the *jvm* has none."""
    found = java_class(jvm, name)
    return found if isinstance(found, JavaClass) else None


def once(method: JavaMember) -> JavaMember:
    """Returns *method* as one that fails where its answer is lost.

    py4j would call it again, and what writes would have written twice.
    """
    return JavaMember(method.name, method.container, method.target_id, _Once(method.gateway_client))


class _Once:
    def __init__(self, client: GatewayClient) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - py4j's own
        return getattr(self._client, name)

    def send_command(self, command: str, retry: bool = True, binary: bool = False) -> Any:  # noqa: ANN401, ARG002, FBT001, FBT002 - as py4j calls it
        return self._client.send_command(command, retry=False, binary=binary)
