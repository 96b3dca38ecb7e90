"""Where processes listen, as Linux's /proc shows it."""

import ipaddress
import struct
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

_LISTENS: Final = "0A"  # TCP_LISTEN
_STATE, _INODE = 3, 9  # fields of a line


def listening(pids: Iterable[int]) -> set[tuple[str, int]]:
    """Addresses and ports at which one of *pids* takes connections; mapped IPv4 is IPv4."""
    found = set()
    for pid in pids:
        inodes = _sockets(pid)
        for table in ("tcp", "tcp6"):
            with suppress(FileNotFoundError):  # the process has ended, or the machine has no IPv6
                lines = Path(f"/proc/{pid}/net/{table}").read_text(encoding="ascii").splitlines()
                for fields in map(str.split, lines[1:]):
                    if fields[_STATE] == _LISTENS and fields[_INODE] in inodes:
                        found.add(_address(fields[1]))
    return found


def _sockets(pid: int) -> set[str]:
    found = set()
    with suppress(FileNotFoundError):
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(FileNotFoundError):
                target = str(descriptor.readlink())
                found |= {target[8:-1]} if target.startswith("socket:[") else set()
    return found


def _address(text: str) -> tuple[str, int]:
    number, port = text.split(":")
    words = [int(number[at : at + 8], 16) for at in range(0, len(number), 8)]  # of this machine
    octets = struct.pack(f"={len(words)}I", *words)
    address = ipaddress.ip_address(octets)
    return str(getattr(address, "ipv4_mapped", None) or address), int(port, 16)
