"""The recipes of conf/docs/transforms.md, as they are there, and what each must do with records."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import yaml

from tests.support.local import REPOSITORY

PAGE = REPOSITORY / "conf" / "docs" / "transforms.md"
SALT = {"KEY_SALT": "pepper"}
"""The environment in which the page's blocks are read."""

_BLOCK = re.compile(r"^### ([^\n]+)\n\n```yaml\n(.+?)^```$", re.MULTILINE | re.DOTALL)

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


LONG = b'\\u00e4\\"x@' * 10_000
"""100 000 characters with escapes, as JSON has them."""

EU = b'{"region": "eu", "n": 1}'
LONG_EU = b'{"text": "%b", "region"\t:\n"eu"}' % LONG
ESCAPED_EU = b'{"region": "\\u0065u", "text": "\xc3\xa4 \\"region\\": \\"us\\""}'
MASKED = [
    (b'{"a":1, "email": "ann@x.org","b":"@"}', b'{"a":1, "email":"***","b":"@"}'),
    (b'{"email": "o\\"q@x.org", "b": 1}', b'{"email":"***", "b": 1}'),
    (b'{"email":"a\\\\","b":"x@y"}', b'{"email":"***","b":"x@y"}'),
    (b'{"email":"\\u0022\\\\\\"\xc3\xa4@x.org"}', b'{"email":"***"}'),
    (b'{"email"\r\n\t :\n "a\nb@x.org"}', b'{"email":"***"}'),
    (b'[{"email":"a@x"},{"email" :"b@x"}]', b'[{"email":"***"},{"email":"***"}]'),
    (b'{"email":["a]@x", "b\\"@x"],"c":[1]}', b'{"email":["***"],"c":[1]}'),
    (b'{"email":[]}', b'{"email":["***"]}'),
    (b'{"email": null, "b": "email"}', b'{"email": null, "b": "email"}'),
    (b'{"email":"", "emails": "email"}', b'{"email":"***", "emails": "email"}'),
    (b'{"email":"ann@x.or', b'{"email":"***"'),
    (b'{"email":"ann@x.or\\', b'{"email":"***"'),
    (b'{"email":["ann@x.org", "bo', b'{"email":["***"]'),
    (b'{"email":"%b","b":1}' % LONG, b'{"email":"***","b":1}'),
    (b'{"email":["%b", "%b"],"b":1}' % (LONG, LONG), b'{"email":["***"],"b":1}'),
    (b'{"b":"%b","email":"x"}' % LONG, b'{"b":"%b","email":"***"}' % LONG),
    (b'{"email":"' + b"a" * 100_000, b'{"email":"***"'),
    *((each, each) for each in (b'{"a":2}', b"no JSON", b"", b'"email"', b'{"email":', None)),
]
ACME, GLOBEX, NEITHER = (("tenant", b"acme"),), (("tenant", b"globex"),), (("other", b"acme"),)
HASHED = b"k", None, b"", b"\xff\x00", b"'\\", LONG


def hashed(key: bytes | None) -> bytes | None:
    """What the recipe makes of a key."""
    return None if key is None else sha256(SALT["KEY_SALT"].encode() + key).hexdigest().encode()


STRANGE: tuple[tuple[tuple[str, bytes | None], ...], ...] = (
    (("tenant", None),),
    (("tenant", b""),),
    (("Tenant", b"acme"),),
    (("tenant", b"acme "),),
    (("tenant", b"\xff"),),
    (("tenant", LONG),),
)
TWICE = (("tenant", None), ("tenant", b"acme"), ("tenant", b"globex"))
TENANTS = ACME, GLOBEX, (), NEITHER, *STRANGE, TWICE
CASES = {
    "Keep one region": [
        Case(
            "A->B",
            "orders-new",
            valued(
                *(EU, b'{"region":"us"}', None, b"no JSON", b"{}", EU, LONG_EU, ESCAPED_EU),
                *(b'{"region": null}', b'{"region": ["eu"]}', b'["eu"]', b"", b"\xff\xfe"),
                *(b'{"n": {"region": "eu"}}', b'{"region": "eu ', b"[" * 100_000),
                LONG_EU[:-1] + b",",
            ),
            valued(EU, None, EU, LONG_EU, ESCAPED_EU),
        )
    ],
    "Mask an email address": [
        Case(
            "A->B",
            "customers",
            valued(*(before for before, _ in MASKED)),
            valued(*(after for _, after in MASKED)),
        )
    ],
    "Drop a header": [
        Case(
            "A->B",
            "payments",
            headed(
                (("a", b"1"), ("cookie", b"c"), ("a", None), ("authorization", None)),
                (),
                (("cookie", LONG), ("cookie", None), ("\u00e4", b"\xff"), ("Cookie", b"kept")),
            ),
            headed((("a", b"1"), ("a", None)), (), (("\u00e4", b"\xff"), ("Cookie", b"kept"))),
        )
    ],
    "Add where a record comes from": [
        Case(
            "A->B",
            "invoices",
            headed((), (("origin", b"own"),), (("origin", None), ("\u00e4", LONG))),
            headed(
                (("origin", b"A/invoices/0/0"),),
                (("origin", b"own"), ("origin", b"A/invoices/0/1")),
                (("origin", None), ("\u00e4", LONG), ("origin", b"A/invoices/0/2")),
            ),
        )
    ],
    "Hash a key": [
        Case(
            "A->B",
            "profiles",
            keyed(*HASHED),
            keyed(*map(hashed, HASHED)),
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
        Case("A->B", "events", headed(*TENANTS), headed(ACME, TWICE)),
        Case("A->C", "events", headed(*TENANTS), headed(GLOBEX, TWICE)),
    ],
}
"""By the title of the recipe; the partition of each topic begins with the first record."""
