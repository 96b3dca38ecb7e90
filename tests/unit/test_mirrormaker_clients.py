"""Client properties of MirrorMaker 2's files take effect where they weaken no guarantee."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replication.config.client_keys import JAVA_KEYS
from replication.config.keys import KEYS
from replication.config.scopes import sort_settings
from replication.config.values import Diagnostics
from tests.support.settings import ONE_FLOW, parse_settings, problems_of

ROLES = ("consumer", "producer", "admin")
ADVICE = re.compile(
    r"(?:effect.*|is a (?:client property|(?:flow|top-level) key)|unknown key); "
    r"(?:write|did you mean)(?: for example)? (\S+?)(?: or (\S+))?\??$"
)
NO_PLACE = re.compile(r"MirrorMaker 2|without effect|is a .* key|is a client property|unknown key")
PLACES = (*ROLES, *(f"{role}.override" for role in ROLES), "cluster")


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
        ("A->B.consumer.override.max.poll.records", "A->B.source.consumer.max.poll.records"),
        ("A->B.source.producer.override.max.poll.records", "A->B.source.consumer.max.poll.records"),
        ("source.consumer.override.max.poll.records", "source.consumer.max.poll.records"),
        ("A->B.target.admin.override.client.id", "A->B.admin.client.id"),
        ("B.producer.override.max.poll.records", "B.consumer.max.poll.records"),
        ("A.source.producer.override.acks", "A.producer.acks"),
        ("A.consumer.override.max.poll.records", "A.consumer.max.poll.records"),
    ],
)
def test_a_client_property_in_a_place_that_nobody_reads_is_a_problem(key: str, right: str) -> None:
    assert problems_of({**ONE_FLOW, key: "read_committed"}) == [
        f"{key}: would have no effect, as in MirrorMaker 2; write {right}"
    ]


@settings(max_examples=500)
@given(
    scope=st.sampled_from(["", "A.", "B.", "A->B."]),
    place=st.sampled_from(
        ["", *(f"{side}{what}." for side in ("", "source.", "target.") for what in PLACES)]
    ),
    name=st.sampled_from([*sorted(JAVA_KEYS), *KEYS, "topcis", "state.dirr", "max.poll.record"]),
)
def test_what_a_problem_says_to_write_instead_has_a_place_there(
    scope: str, place: str, name: str
) -> None:
    for text in said_of(f"{scope}{place}{name}"):
        if advice := ADVICE.search(text):
            for right in filter(None, advice.groups()):
                assert not [one for one in said_of(right) if NO_PLACE.search(one)], text


def said_of(key: str) -> list[str]:
    """The problems and warnings about *key*."""
    diagnostics = Diagnostics()
    sort_settings(diagnostics, {**ONE_FLOW, key: "1"})
    said = [*diagnostics.problems, *diagnostics.warnings]
    return [one for one in said if one.startswith(f"{key}: ")]


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
