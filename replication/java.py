"""The classes of a JVM, as py4j shows them."""

from typing import Any

from py4j.java_gateway import JavaClass


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
