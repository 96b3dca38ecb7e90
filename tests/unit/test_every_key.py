"""Every key, made from its declaration: its default, and a value of its kind in each place.

A new key needs no line here, unless it takes no value of its kind alone (`SAMPLES`, `TOGETHER`) or
its field is more than its value (`DERIVED`), which then has a test of its own.
"""

from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass
from typing import Any

import pytest

from replication.config.client_keys import BY_ROLE, is_replaced
from replication.config.config_key import ConfigKey, declared_keys
from replication.config.keys import KEYS
from replication.config.tree import MirrorConfig
from replication.config.values import Raw, read
from tests.support.settings import ONE_FLOW, parse_settings

SCOPES = {"top": "", "flow": "A->B.", "target": "B.", "cluster": "B."}
PLACES = [(key.name, place) for key in KEYS.values() for place in key.places]

BY_KIND: Mapping[str, tuple[str, object]] = {
    "names": ("a, b,,a", ("a", "b")),
    "patterns": ("a.*, b,,b", ("a.*", "b")),
    "text": (" x ", "x"),
    "java class": ("com.example.Own", "com.example.Own"),
}
SAMPLES: Mapping[str, tuple[str, object]] = {
    "clusters": ("A, B, C", ("A", "B", "C")),
    "replication.target.clusters": ("B", ("B",)),
    "replication.policy.separator": ("_", "_"),
    "replication.limit.bytes.per.second": ("20MB", 20_000_000),
    "replication.limit.records.per.second": ("5000", 5_000),
    "replication.limit.topics": ("b 2MB/s", "b"),
    "replication.transforms": ("masked", ("masked",)),
    "schema.registry.url": ("https://r:1/, https://s:2", ("https://r:1", "https://s:2")),
    "schema.registry.basic.auth.user.info": ("user:secret", "user:secret"),
    "schema.registry.ssl.key.password": ("secret", "secret"),
    "state.dir": (" s3a://bucket/state ", "s3a://bucket/state"),
    "metrics.listen": ("0.0.0.0", "0.0.0.0"),  # noqa: S104 - nothing listens
    "rest.listen": ("localhost", "localhost"),
    "rest.path.prefix": ("/mirror", "/mirror"),
    "rest.trusted.proxies": ("10.0.0.0/8", ("10.0.0.0/8",)),
}
"""Values of keys that take not each value of their kind, as written and as read."""

IDS = {
    "replication.schemas": "translate",
    "replication.schemas.topics": "t",
    "A.schema.registry.url": "http://r:1",
    "B.schema.registry.url": "https://r:2",
}
TLS = {"rest.tls.certificate": "c.pem", "rest.tls.key": "k.pem"}
TOGETHER: Mapping[str, Mapping[str, str]] = {
    "enabled": {"A->B.enabled": "false"},
    "replication.policy.internal.topic.separator.enabled": {"replication.policy.separator": "_"},
    "replication.transforms": {
        "replication.transforms.masked.topics": "t",
        "replication.transforms.masked.value": "null",
    },
    "replication.schemas": IDS,
    "replication.schemas.topics": IDS,
    "replication.schemas.unframed": IDS,
    "schema.registry.basic.auth.user.info": IDS,
    "schema.registry.ssl.truststore.location": IDS,
    "schema.registry.ssl.keystore.location": IDS,
    "schema.registry.ssl.key.password": IDS | {"B.schema.registry.ssl.keystore.location": "k.pem"},
    "rest.tls.certificate": TLS,
    "rest.tls.key": TLS,
    "rest.tls.client.ca": TLS,
    "clusters": {"C.bootstrap.servers": "c:1"},
}
"""Settings without which a key is refused, or has no effect."""

DERIVED = {
    *("topic.filter.class", "group.filter.class", "config.property.filter.class"),
    *("replication.policy.class", "replication.policy.separator"),
    "replication.policy.internal.topic.separator.enabled",
    *("enabled", "replication.target.clusters"),
    "tasks.max",
    "replication.limit.bytes.per.second",
    "replication.limit.records.per.second",
    "replication.limit.topics",
    "replication.dead.letters.topic",
    "status.storage.topic",
    "emit.heartbeats.enabled",
    "heartbeats.topic.location",
}
"""Keys whose field is not just their value; what it is stands in `test_config_scopes.py` and
`test_config_defaults.py`."""

WITHOUT_EFFECT = {"metric.names.formats", "forwarding.admin.class"}


def sample(key: ConfigKey) -> tuple[str, object]:
    """A value that is not the key's default, as written and as read."""
    if key.name in SAMPLES:
        return SAMPLES[key.name]
    match key.kind:
        case "flag":
            is_true = key.default == "false"
            return str(is_true).upper(), is_true
        case "number":
            number = int(key.default or key.least) + 1
            return f" {number}", number
        case "choice":
            other = next(one for one in key.choices if one != key.default)
            return other, other
        case "choices" | "class":
            return key.choices[-1], key.choices[-1]
    return BY_KIND[key.kind]


def fields_of(section: object) -> Iterator[tuple[str, Any]]:
    """The name of each key that the fields of *section* declare, and the value of its field."""
    for name, declared in declared_keys(type(section)).items():
        found = getattr(section, name)
        for key in declared:
            if isinstance(key, ConfigKey):
                yield key.name, found
            else:
                yield from ((each.name, found[item]) for item, each in key.items())
        if not declared and is_dataclass(found):
            yield from fields_of(found)


def values_of(config: MirrorConfig) -> dict[str, object]:
    """What the configuration has for each key; a registry's are those of the target's."""
    (flow,) = [flow for flow in config.flows if str(flow.flow) == "A->B"]
    pairs = [pair for pair in config.heartbeats if str(pair.flow) == "A->B"]
    sections = (flow, config.metrics, config.serve, *pairs)
    return {name: value for section in sections for name, value in fields_of(section)} | {
        "clusters": config.clusters,
        "replication.source.cluster.id": flow.source.expected_id,
        "replication.target.cluster.id": flow.target.expected_id,
        "replication.transforms": tuple(one.name for one in flow.transforms),
        "state.dir": config.state_dir,
        "state.engine": config.engine,
    }


@pytest.mark.parametrize(("name", "place"), PLACES)
def test_a_value_of_its_kind_is_read_in_each_place(name: str, place: str) -> None:
    written, value = sample(KEYS[name])
    given: dict[str, Raw] = {**ONE_FLOW, **TOGETHER.get(name, {})}
    config = parse_settings({**given, f"{SCOPES[place]}{name}": written})

    if name in WITHOUT_EFFECT:
        assert values_of(config) == values_of(parse_settings(given))
    elif name in DERIVED:
        assert config != parse_settings(given)
    else:
        assert values_of(config)[name] == value


def test_a_file_that_leaves_a_key_out_has_its_default() -> None:
    """The page has the defaults as well, and `test_documents.py` compares them with these."""
    given = {"clusters", "state.dir"}
    found = values_of(parse_settings(ONE_FLOW))

    expected = {
        key.name: value.strip() if isinstance(value := read(key, key.default), str) else value
        for key in KEYS.values()
        if key.name not in DERIVED | WITHOUT_EFFECT | given
    }
    assert {name: found[name] for name in expected} == expected


@pytest.mark.parametrize(
    "key", [key for key in KEYS.values() if key.effect], ids=lambda key: key.name
)
def test_a_key_that_sets_a_client_property_sets_it_for_that_client_alone(key: ConfigKey) -> None:
    assert key.effect is not None
    client, name = key.effect
    location, role = client.split(".")
    written, value = sample(key)
    text = str(value).lower() if isinstance(value, bool) else str(value)
    alias = {"source": "A", "target": "B"}[location]

    def properties(settings: Mapping[str, Raw]) -> dict[str, str]:
        (flow,) = parse_settings({**ONE_FLOW, **settings}).flows
        return {
            f"{side}.{kind}": getattr(getattr(flow, side), kind).get(name, "")
            for side in ("source", "target")
            for kind in BY_ROLE
        }

    nowhere = dict.fromkeys(properties({}), "")
    assert properties({}) == nowhere
    assert properties({key.name: written}) == nowhere | {client: text}
    assert properties({f"A->B.{key.name}": written}) == nowhere | {client: text}
    of_cluster = {f"{alias}.{role}.{name}": key.default}
    assert properties({key.name: written, **of_cluster})[client] == key.default
    of_flow = {f"A->B.{client}.{name}": key.default}
    assert properties({f"A->B.{key.name}": written, **of_flow})[client] == text


def test_a_key_sets_a_property_that_its_client_has_and_the_mirror_does_not_set_itself() -> None:
    for key in KEYS.values():
        if key.effect is not None:
            client, name = key.effect
            role = next(role for role in BY_ROLE if client.endswith(role))
            assert name in BY_ROLE[role]
            assert not is_replaced(role, name, key.default)
            assert {*key.places} <= {"top", "flow"}
