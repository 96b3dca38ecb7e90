"""The recipes of conf/docs/recipes.md, as the page has them, and what each must do with records."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from tests.support.local import REPOSITORY

PAGE = REPOSITORY / "conf" / "docs" / "recipes.md"
SALT = {"KEY_SALT": "pepper"}
"""The environment in which the page's blocks are read."""

_BLOCK = re.compile(r"^## ([^\n]+)\n\n```yaml\n(.+?)^```$", re.MULTILINE | re.DOTALL)

Record = tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]
"""Key, value and headers."""


@dataclass(frozen=True, slots=True)
class Case:
    """What a recipe makes of the *records* of a topic."""

    flow: str
    topic: str
    records: tuple[Record, ...]
    copies: tuple[Record, ...]


def recipes() -> dict[str, dict[str, dict[str, object]]]:
    """The settings of each recipe: title, flow, key."""
    return {title: yaml.safe_load(text) for title, text in _BLOCK.findall(PAGE.read_text())}


def joined(blocks: Iterable[Mapping[str, Any]]) -> dict[str, object]:
    """The settings of one flow that has all of these transforms."""
    names: list[str] = []
    joint: dict[str, object] = {}
    for block in blocks:
        names += block["replication.transforms"]
        joint |= block
    return {**joint, "replication.transforms": names}


def valued(*values: bytes | None) -> tuple[Record, ...]:
    """Records with these values."""
    return tuple((b"k", value, ()) for value in values)


def keyed(*keys: bytes | None) -> tuple[Record, ...]:
    """Records with these keys."""
    return tuple((key, b"v", ()) for key in keys)


def headed(*headers: tuple[tuple[str, bytes | None], ...]) -> tuple[Record, ...]:
    """Records with these headers."""
    return tuple((b"k", b"v", own) for own in headers)


EU = b'{"region": "eu", "n": 1}'
ACME, GLOBEX, NEITHER = (("tenant", b"acme"),), (("tenant", b"globex"),), (("other", b"acme"),)
CASES = {
    "Keep one region": [
        Case(
            "A->B",
            "orders-new",
            valued(EU, b'{"region":"us"}', None, b"no JSON", b"{}", EU),
            valued(EU, None, EU),
        )
    ],
    "Mask an email address": [
        Case(
            "A->B",
            "customers",
            valued(b'{"a":1, "email": "ann@x.org","b":"@"}', b'{"a":2}', b"no JSON", None),
            valued(b'{"a":1, "email":"***","b":"@"}', b'{"a":2}', b"no JSON", None),
        )
    ],
    "Drop a header": [
        Case(
            "A->B",
            "payments",
            headed((("a", b"1"), ("cookie", b"c"), ("a", None), ("authorization", None)), ()),
            headed((("a", b"1"), ("a", None)), ()),
        )
    ],
    "Add where a record comes from": [
        Case(
            "A->B",
            "invoices",
            headed((), (("origin", b"own"),)),
            headed(
                (("origin", b"A/invoices/0/0"),),
                (("origin", b"own"), ("origin", b"A/invoices/0/1")),
            ),
        )
    ],
    "Hash a key": [
        Case(
            "A->B",
            "profiles",
            keyed(b"k", None),
            keyed(b"31c9ddcd1a82dc0378f616d3cc1341697fd0948c2b4d637d34866cc24ff794ca", None),
        )
    ],
    "Sample one in a hundred": [
        Case(
            "A->B",
            "clicks",
            keyed(*(b"%d" % (number % 300) for number in range(600))),
            keyed(*(b"%d" % number for number in (8, 98, 118, 249) * 2)),
        )
    ],
    "Split by tenant": [
        Case("A->B", "events", headed(ACME, GLOBEX, (), NEITHER), headed(ACME)),
        Case("A->C", "events", headed(ACME, GLOBEX, (), NEITHER), headed(GLOBEX)),
    ],
}
"""By the title of the recipe; the partition of each topic begins with the first record."""
