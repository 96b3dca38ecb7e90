"""Whose an address or a name is: what only this machine reaches, and what a server is called. Pure.

A page in a browser can lead its own name to an address inside the network (DNS rebinding), and then
reads what answers there. It cannot choose the header Host, which has its name. So names are known,
or are addresses.
"""

import ipaddress
from collections.abc import Collection
from typing import Final

LOCALHOST: Final = "localhost"


def is_loopback(address: str) -> bool:
    """Returns whether only this machine reaches *address*, a name or a number."""
    found = _address(address.strip("[]"))
    return found.is_loopback if found else address == LOCALHOST


def is_own(host: str, names: Collection[str], *, takes_addresses: bool) -> bool:
    """Returns whether the header Host, as sent, is a name of this server.

    Args:
        host: With or without a port.
        names: Further names of the server, beside those of loopback.
        takes_addresses: Whether any address is one: a server that listens on all addresses does
            not know how others reach it.
    """
    name = _name_in(host)
    if name in {LOCALHOST, "127.0.0.1", "::1", *(known.lower() for known in names)}:
        return True
    return takes_addresses and _address(name) is not None


def _name_in(host: str) -> str:
    """Returns the name in a header Host, without port and brackets, in lower case."""
    host = host.strip().lower()
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host if host.count(":") > 1 else host.partition(":")[0]


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None
