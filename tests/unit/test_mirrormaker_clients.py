"""Client properties of MirrorMaker 2's files take effect where they weaken no guarantee."""

import pytest

from tests.support.settings import ONE_FLOW, parse_settings, problems_of


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("B.producer.acks", "1", "the mirror always writes with acks=all"),
        ("B.acks", "0", "the mirror always writes with acks=all"),
        ("B.producer.enable.idempotence", "false", "the mirror always writes idempotently"),
        ("A->B.producer.override.retries", "0", "the mirror retries without limit"),
        ("producer.delivery.timeout.ms", "1000", "the mirror never gives a record up"),
        (
            "B.producer.max.in.flight.requests.per.connection",
            "6",
            "the mirror has at most 5 requests in flight",
        ),
    ],
)
def test_a_value_that_would_weaken_the_guarantees_is_replaced(
    key: str, value: str, reason: str
) -> None:
    config = parse_settings({**ONE_FLOW, key: value})

    assert config.flows[0].target.producer == {"bootstrap.servers": "b:1"}
    assert config.warnings == (
        f"{key}: has no effect: {reason}, so that no record is lost, repeated or reordered",
    )


def test_values_that_keep_the_guarantees_are_used() -> None:
    values = {
        "acks": "-1",
        "enable.idempotence": "true",
        "retries": "2147483647",
        "max.in.flight.requests.per.connection": "1",
    }
    config = parse_settings({**ONE_FLOW, **{f"B.producer.{k}": v for k, v in values.items()}})

    assert config.flows[0].target.producer == {"bootstrap.servers": "b:1", **values}
    assert config.warnings == ()


@pytest.mark.parametrize(
    "key",
    [
        "B.producer.key.serializer",
        "A.consumer.value.deserializer",
        "A.consumer.interceptor.classes",
        "B.producer.transactional.id",
        "A.consumer.group.id",
        "A.consumer.group.protocol",
        "B.producer.partitioner.class",
    ],
)
def test_what_the_mirror_sets_itself_has_no_effect_and_reaches_no_client(key: str) -> None:
    config = parse_settings({**ONE_FLOW, key: "x"})

    (flow,) = config.flows
    assert flow.source.consumer == {"bootstrap.servers": "a:1"}
    assert flow.target.producer == {"bootstrap.servers": "b:1"}
    (text,) = (*config.notes, *config.warnings)
    assert text.startswith(f"{key}: has no effect: ")


@pytest.mark.parametrize(
    ("key", "right"),
    [
        ("A.source.consumer.isolation.level", "A.consumer.isolation.level"),
        ("A.source.cluster.client.id", "A.client.id"),
        ("B.producer.override.acks", "B.producer.acks"),
        ("B.target.producer.acks", "B.producer.acks"),
        ("A->B.source.producer.override.acks", "A->B.producer.override.acks"),
    ],
)
def test_a_client_property_in_a_place_that_nobody_reads_is_a_problem(key: str, right: str) -> None:
    assert problems_of({**ONE_FLOW, key: "read_committed"}) == [
        f"{key}: would have no effect, as in MirrorMaker 2; write {right}"
    ]


def test_properties_of_all_clients_of_a_source_or_target_take_effect() -> None:
    (flow,) = parse_settings(
        {
            **ONE_FLOW,
            "source.cluster.isolation.level": "read_committed",
            "target.cluster.client.id": "t",
        }
    ).flows

    assert flow.isolation == "read_committed"
    assert flow.target.producer["client.id"] == flow.target.admin["client.id"] == "t"
    assert "client.id" not in flow.source.consumer


def test_a_cluster_may_be_called_source() -> None:
    (flow,) = parse_settings(
        {
            "clusters": "source,target",
            "source.bootstrap.servers": "a:1",
            "target.bootstrap.servers": "b:1",
            "source.consumer.isolation.level": "read_committed",
            "source.cluster.alias": "source",
            "source->target.enabled": "true",
        }
    ).flows

    assert flow.isolation == "read_committed"
