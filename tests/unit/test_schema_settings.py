"""Keys of schemas and registries: what is wrong is said at once, and passwords never."""

import re

import pytest

from replication.config.client_keys import SPARK_REDACTION, is_secret
from replication.config.schema_settings import PASSWORD, USER
from tests.support.settings import ONE_FLOW, parse_settings, problems_of

REGISTRIES = {"A.schema.registry.url": "http://a:8081", "B.schema.registry.url": "https://b"}
TRANSLATED = {
    **ONE_FLOW,
    **REGISTRIES,
    "A->B.replication.schemas": "translate",
    "A->B.replication.schemas.topics": "orders, pay.*",
}


def test_without_a_word_ids_stay_and_no_registry_is_known() -> None:
    (flow,) = parse_settings(ONE_FLOW).flows
    assert flow.schemas.mode == "none"
    assert flow.schemas.source_registry.urls == ()
    assert not flow.schemas.names("orders")


def test_a_registry_belongs_to_its_cluster() -> None:
    settings = {**TRANSLATED, "B.schema.registry.url": "https://b1/contexts/.A/, https://b2"}
    (flow,) = parse_settings(settings).flows
    assert flow.schemas.source_registry.urls == ("http://a:8081",)
    assert flow.schemas.target_registry.urls == ("https://b1/contexts/.A", "https://b2")
    assert [flow.schemas.names(topic) for topic in ("orders", "payments", "clicks")] == [
        True,
        True,
        False,
    ]


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"A.schema.registry.url": ""}, "A.schema.registry.url: missing; A->B.replication.schemas"),
        ({"A->B.replication.schemas.topics": ""}, "A->B.replication.schemas.topics: missing"),
        ({"A->B.replication.schemas": "always"}, "A->B.replication.schemas: 'always' is invalid"),
        ({"A->B.replication.schemas": "none"}, "A->B.replication.schemas.topics: has no effect"),
        ({"B.schema.registry.url": "http://a:8081"}, "B.schema.registry.url: is A's registry"),
        ({"B.schema.registry.url": "b:8081"}, "B.schema.registry.url: is no address"),
        ({"B.schema.registry.url": "http://b:x"}, "B.schema.registry.url: is no address"),
        ({"B.schema.registry.url": "ftp://b"}, "B.schema.registry.url: is no address"),
        ({"B.schema.registry.url": "http://b?x=1"}, "B.schema.registry.url: is no address"),
        (
            {"B.schema.registry.url": "https://me:hush@b"},
            "B.schema.registry.url: has a user or a password in it; write those as",
        ),
        (
            {"B.schema.registry.basic.auth.user.info": "hush"},
            "B.schema.registry.basic.auth.user.info: ******** has no colon",
        ),
        (
            {"A.schema.registry.ssl.truststore.location": "/ca.pem"},
            "A.schema.registry.ssl.truststore.location: has no effect",
        ),
        (
            {"B.schema.registry.ssl.truststore.location": "/trust.jks"},
            "B.schema.registry.ssl.truststore.location: is a store of Java's",
        ),
        (
            {"B.schema.registry.ssl.key.password": "hush"},
            "B.schema.registry.ssl.key.password: has no effect without",
        ),
        (
            {"A->B.replication.schemas": "preserve", "A->B.replication.schemas.unframed": "fail"},
            "A->B.replication.schemas.unframed: has no effect with preserve",
        ),
        (
            {"A->B.schema.registry.url": "http://b"},
            "A->B.schema.registry.url: is a key of a cluster; write A.schema.registry.url",
        ),
        (
            {"schema.registry.url": "http://b"},
            "schema.registry.url: is a key of a cluster; write A.schema.registry.url",
        ),
    ],
)
def test_what_is_wrong_is_said_with_its_key(settings: dict[str, str], problem: str) -> None:
    problems = problems_of({**TRANSLATED, **settings})
    assert [text.startswith(problem) for text in problems] == [True]
    assert "hush" not in str(problems)


def test_all_problems_come_at_once() -> None:
    problems = problems_of({**ONE_FLOW, "replication.schemas": "translate"})
    keys = {problem.partition(":")[0] for problem in problems}
    assert keys == {
        "A.schema.registry.url",
        "B.schema.registry.url",
        "replication.schemas.topics",
    }


def test_a_registry_shows_no_password() -> None:
    settings = {"B.schema.registry.basic.auth.user.info": "me:hush"}
    (flow,) = parse_settings({**TRANSLATED, **settings}).flows
    assert flow.schemas.target_registry.user == "me:hush"
    assert "hush" not in repr(flow)


def test_a_key_of_all_flows_is_no_fault_of_one_without_schemas() -> None:
    settings = {
        **TRANSLATED,
        "B->A.enabled": "true",
        "replication.schemas.topics": ".*",
        "replication.schemas.unframed": "fail",
    }
    modes = {flow.flow.source: flow.schemas.mode for flow in parse_settings(settings).flows}
    assert modes == {"A": "translate", "B": "none"}


@pytest.mark.parametrize("key", [USER, PASSWORD])
def test_the_keys_of_secrets_are_known_as_such(key: str) -> None:
    assert is_secret(f"B.{key}")
    assert re.search(SPARK_REDACTION, f"B.{key}")
