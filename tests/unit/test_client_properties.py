"""Where a client property may be written, which place wins, and which clients get it."""

from collections.abc import Callable, Mapping

import pytest

from replication.config.tree import FlowConfig
from replication.config.values import Raw
from tests.support.settings import ONE_FLOW, parse_settings


def flow(**written: Raw) -> FlowConfig:
    return parse_settings({**ONE_FLOW, **written}).flows[0]


WEAKEST_FIRST = {
    "consumer": (
        "consumer.client.id",
        "source.consumer.client.id",
        "A.client.id",
        "A->B.source.cluster.client.id",
        "A->B.consumer.client.id",
        "A.consumer.client.id",
        "A->B.source.consumer.client.id",
    ),
    "producer": (
        "producer.client.id",
        "producer.override.client.id",
        "target.producer.client.id",
        "B.client.id",
        "A->B.target.cluster.client.id",
        "A->B.producer.client.id",
        "B.producer.client.id",
        "A->B.target.producer.client.id",
        "A->B.producer.override.client.id",
    ),
}


@pytest.mark.parametrize(
    ("keys", "properties"),
    [
        pytest.param(WEAKEST_FIRST["consumer"], lambda f: f.source.consumer, id="consumer"),
        pytest.param(WEAKEST_FIRST["producer"], lambda f: f.target.producer, id="producer"),
    ],
)
def test_a_stronger_scope_overrides_a_client_property(
    keys: tuple[str, ...], properties: Callable[[FlowConfig], Mapping[str, str]]
) -> None:
    found = [
        properties(flow(**{key: key for key in keys[: count + 1]}))["client.id"]
        for count in range(len(keys))
    ]

    assert found == list(keys)


def test_client_properties_reach_only_the_clients_that_know_them() -> None:
    config = flow(
        **{
            "ssl.protocol": "TLSv1.3",
            "B.request.timeout.ms": "7",
            "B.linger.ms": "1",
            "B.max.poll.records": "2",
            "B.own.property": "x",
            "A->B.producer.override.acks": "all",
            "A.consumer.group.id": "g",
        }
    )

    shared = {
        "ssl.protocol": "TLSv1.3",
        "bootstrap.servers": "b:1",
        "request.timeout.ms": "7",
    }
    source = {"ssl.protocol": "TLSv1.3", "bootstrap.servers": "a:1"}
    assert [
        config.source.consumer,
        config.source.producer,
        config.source.admin,
        config.target.consumer,
        config.target.producer,
        config.target.admin,
    ] == [
        source,
        source,
        source,
        {**shared, "max.poll.records": "2"},
        {**shared, "linger.ms": "1", "acks": "all"},
        shared,
    ]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        pytest.param({}, "earliest", id="default"),
        pytest.param({"auto.offset.reset": "latest"}, "latest", id="top level"),
        pytest.param(
            {"A.consumer.auto.offset.reset": "latest"}, "latest", id="MirrorMaker's place"
        ),
        pytest.param({"A.auto.offset.reset": "latest"}, "latest", id="cluster"),
        pytest.param({"B.consumer.auto.offset.reset": "latest"}, "earliest", id="other cluster"),
        pytest.param(
            {"A.consumer.auto.offset.reset": "latest", "auto.offset.reset": "earliest"},
            "latest",
            id="cluster over top level",
        ),
        pytest.param(
            {"A.consumer.auto.offset.reset": "latest", "A->B.auto.offset.reset": "earliest"},
            "earliest",
            id="flow over cluster",
        ),
    ],
)
def test_where_auto_offset_reset_may_be_set(settings: dict[str, Raw], expected: str) -> None:
    assert flow(**settings).auto_offset_reset == expected


def test_a_password_loses_the_blanks_that_java_takes_off_and_no_others() -> None:
    settings = {"A.ssl.key.password": " \u00a0sec ret\u2003\n", "A.client.id": " mirror "}

    source = parse_settings({**ONE_FLOW, **settings}).flows[0].source

    assert source.admin["ssl.key.password"] == "\u00a0sec ret\u2003"
    assert source.admin["client.id"] == "mirror"
