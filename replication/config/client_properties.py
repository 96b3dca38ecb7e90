"""The effective properties of each Kafka client of a flow, by MirrorMaker 2's precedence. Pure."""

import re
from collections.abc import Mapping
from typing import Final

from replication.config.client_keys import (
    BY_ROLE,
    CHOICES,
    JAVA_KEYS,
    ROLES,
    SECURITY,
    ClientProperties,
    Role,
    is_replaced,
    is_secret,
    replacement,
)
from replication.config.ignored import ignored_reason
from replication.config.keys import KEYS
from replication.config.values import Diagnostics, Raw, closest, items, known, one_of, text
from replication.mm2.filters import COMMENT
from replication.model import Location

SERVERS_EXAMPLE: Final = "broker-1:9092,broker-2:9092"

_CLIENT: Final = re.compile(
    r"(?:producer\.override|(?:(?:source|target)\.)?(?P<role>consumer|producer|admin)"
    r"|(?:source|target)\.cluster)\.(?P<name>.+)"
)
_PLACED: Final = re.compile(
    r"(?P<side>(?:source|target)\.)?(?:cluster|(?P<role>consumer|producer|admin))\."
    r"(?P<override>override\.)?(?P<name>.+)"
)
_HOST_PORT: Final = re.compile(
    r"(?:[A-Za-z]\w*://)?(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.%]+\]):(\d{1,5})"
)
_NUMERIC: Final = re.compile(r".*\.(?:ms|bytes|records|size|memory)")
_JAVA_BLANKS: Final = "".join(map(chr, range(0x21)))  # ConfigDef takes off no others
_PORTS: Final = range(1, 65536)
_SETTERS: Final = tuple(key for key in KEYS.values() if key.effect is not None)


def client_property(key: str) -> tuple[Role | None, str] | None:
    """Returns the client and the property that *key*, without its scope, sets.

    ``consumer.x`` is ("consumer", "x"), ``source.cluster.x`` is (None, "x"): all clients. None if
    *key* is not a client property.
    """
    match = _CLIENT.fullmatch(key)
    if match is None or key in KEYS or ignored_reason(key) is not None:
        return None
    role = match["role"] or ("producer" if key.startswith("producer.override.") else None)
    return role, match["name"]  # type: ignore[return-value]  # the pattern matches roles only


def is_passed(name: str) -> bool:
    """Returns whether ``A.name``, which no client is known to have, is passed to Java's clients.

    As in MirrorMaker 2 it must belong to security, such as what a login handler of one's own reads.
    """
    return name not in JAVA_KEYS and name.startswith(("sasl.", "ssl."))


def misplaced(name: str) -> str | None:
    """Returns the client property that the author of ``A.name`` meant; None if not misplaced.

    MirrorMaker 2 reads ``source.``, ``target.`` and ``producer.override.`` after a flow's name
    only, and drops them without a word after an alias.
    """
    match = _PLACED.fullmatch(name)
    if match is None or not (match["side"] or match["override"]):
        return None
    if match["role"] is None:
        is_known = match["name"] in JAVA_KEYS or is_passed(match["name"])
        return match["name"] if is_known else None
    return f"{_role_with(match['name'], match['role'])}.{match['name']}"


def without_override(name: str) -> str | None:
    """Returns the key of a flow that the author of *name* meant; None if *name* may stand there.

    ``override.`` follows ``producer.`` only: nobody reads ``consumer.override.x``.
    """
    match = _PLACED.fullmatch(name)
    if match is None or not match["override"] or name.startswith("producer.override."):
        return None
    return in_flow(match["name"], match["role"])


def in_flow(name: str, role: str | None = None) -> str:
    """Returns the key of the client property *name* after a flow's name, if a client has it."""
    forms = {"consumer": "source.consumer", "producer": "producer.override", "admin": "admin"}
    return f"{forms[_role_with(name, role or 'consumer')]}.{name}"


def _role_with(name: str, role: str) -> str:
    """Returns *role*, or another kind of client if only that has the property *name*."""
    has_it = name in BY_ROLE[role]  # type: ignore[index]  # the pattern matches roles only
    return role if has_it else next((one for one in ROLES if name in BY_ROLE[one]), role)


def effective_properties(
    top: Mapping[str, Raw],
    cluster: Mapping[str, Raw],
    flow: Mapping[str, Raw],
    *,
    location: Location,
    role: Role,
    refuses_missing: bool = False,
) -> ClientProperties:
    """Returns the properties of the *role* client for the cluster at *location*, with Java's keys.

    A later layer wins: top level (bare security keys, the mirror's keys that set a property, then
    ``location.cluster.``, ``role.``, ``location.role.``), the cluster's bare keys, the flow's
    ``location.cluster.`` and ``role.``, the cluster's ``role.``, the flow's ``location.role.``, on
    the data producer the flow's ``producer.override.``, and last the flow's own value of a key of
    the mirror. MirrorMaker 2 drops the top-level forms and bare keys
    other than addresses and security, and lets a cluster's bare security key win over the flow's
    ``role.``; the rest is equal. Values that the mirror replaces by its own are left out.
    """
    is_data_producer = location == "target" and role == "producer"
    layers = [
        {key: value for key, value in top.items() if key in SECURITY},
        _of_keys(top, location, role),
        _under(top, f"{location}.cluster."),
        _under(top, f"{role}."),
        _under(top, "producer.override.") if is_data_producer else {},
        _under(top, f"{location}.{role}."),
        _bare(cluster, role),
        _under(flow, f"{location}.cluster."),
        _under(flow, f"{role}."),
        _under(cluster, f"{role}."),
        _under(flow, f"{location}.{role}."),
        _under(flow, "producer.override.") if is_data_producer else {},
        _of_keys(flow, location, role),
    ]
    merged = {key: value for layer in layers for key, value in layer.items()}
    merged.pop("alias", None)  # of source.cluster.alias
    if refuses_missing:
        merged = {key: known(value) for key, value in merged.items()}
    found = {
        key: text(value).strip(_JAVA_BLANKS if key.endswith(".password") else None)
        for key, value in merged.items()
    }
    if servers := found.get("bootstrap.servers"):
        found["bootstrap.servers"] = ",".join(items(servers))  # Kafka 4.2 takes no empty item
    return ClientProperties(
        {key: value for key, value in found.items() if not is_replaced(role, key, value)}
    )


def check_property(
    diagnostics: Diagnostics, key: str, role: Role | None, name: str, raw: Raw
) -> None:
    value, known = text(raw).strip(), BY_ROLE[role] if role else JAVA_KEYS
    if COMMENT.search(value) and not is_secret(key):
        diagnostics.warning(
            key,
            "the value contains what looks like a comment; Java takes it for a part of the value",
        )
    displayed = diagnostics.display(key, raw)
    if name == "bootstrap.servers":
        _check_servers(diagnostics, key, value)
    elif name in CHOICES and not _is_choice(name, value):
        diagnostics.problem(key, f"{displayed} is invalid; write {one_of(CHOICES[name])}")
    elif (replaced := replacement(role, name, value)) is not None:
        reason, deserves_warning = replaced
        diagnostics.unused(key, f"has no effect: {reason}", warns=deserves_warning)
    elif name not in known:
        _check_unknown(diagnostics, key, role, name)
    elif _NUMERIC.fullmatch(name) and not re.fullmatch(r"-?\d+", value):
        diagnostics.problem(key, f"{displayed} is invalid; write a whole number")


def _is_choice(name: str, value: str) -> bool:
    # Java minds the case, except in protocols and booleans
    choices = CHOICES[name]
    if name == "security.protocol":
        return value.upper() in choices
    return (value.lower() if "true" in choices else value) in choices


def _check_unknown(diagnostics: Diagnostics, key: str, role: Role | None, name: str) -> None:
    known = BY_ROLE[role] if role else JAVA_KEYS
    if (other := closest(name, known, 0.8)) is not None:
        diagnostics.problem(key, f"unknown property of this client; did you mean {other!r}?")
    elif name in JAVA_KEYS:
        reason = "has no effect, as in MirrorMaker 2: it is a property of another kind of client"
        diagnostics.unused(key, reason, warns=True)
    elif role or is_passed(name):
        diagnostics.warning(key, "unknown property; passed to Java's client unchanged")
    else:
        reason = "unknown key, without effect, as in MirrorMaker 2"
        diagnostics.unused(key, reason, warns=True)


def _check_servers(diagnostics: Diagnostics, key: str, value: str) -> None:
    for server in items(value) or ("",):  # MirrorMaker 2 takes a comma at the end
        match = _HOST_PORT.fullmatch(server.strip())
        if match is None or int(match[1]) not in _PORTS:
            diagnostics.problem(
                key,
                f"{diagnostics.display(key, server.strip())} is not host:port; write for example "
                f"{SERVERS_EXAMPLE}",
            )


def _of_keys(settings: Mapping[str, Raw], location: Location, role: Role) -> dict[str, Raw]:
    return {
        key.effect[1]: settings[key.name]
        for key in _SETTERS
        if key.effect and key.effect[0] == f"{location}.{role}" and key.name in settings
    }


def _under(settings: Mapping[str, Raw], prefix: str) -> dict[str, Raw]:
    return {
        key[len(prefix) :]: value
        for key, value in settings.items()
        if key.startswith(prefix)
        and client_property(key) is not None
        and not (prefix == "producer." and key.startswith("producer.override."))
    }


def _bare(cluster: Mapping[str, Raw], role: Role) -> dict[str, Raw]:
    return {
        key: value
        for key, value in cluster.items()
        if client_property(key) is None
        and ignored_reason(key) is None
        and (key in BY_ROLE[role] or is_passed(key))
    }
