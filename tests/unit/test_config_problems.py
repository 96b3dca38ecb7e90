"""The problems of a whole configuration are reported together, word for word."""

from collections.abc import Mapping

import pytest

from replication.config.values import Raw
from tests.support.settings import IDENTITY, ONE_FLOW, TWO_CLUSTERS, problems_of

NOTHING_RUNS = "A->B.enabled: no flow is enabled, and no heartbeats; write true for at least one"


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        pytest.param(
            {},
            ["clusters: missing; list the aliases, for example clusters: [east, west]"],
            id="none",
        ),
        pytest.param(
            {**TWO_CLUSTERS, "emit.heartbeats.enabled": "false"},
            [NOTHING_RUNS],
            id="neither flows nor heartbeats",
        ),
        pytest.param(
            {"clusters": "A", "A.bootstrap.servers": "a:1"}, [NOTHING_RUNS], id="one cluster"
        ),
        pytest.param(
            {"clusters": "A,B,A", "A->B.enabled": "true"},
            [
                "clusters: 'A' is listed twice; remove one",
                "A.bootstrap.servers: missing; write for example broker-1:9092,broker-2:9092",
                "B.bootstrap.servers: missing; write for example broker-1:9092,broker-2:9092",
            ],
            id="twice, and no addresses",
        ),
        pytest.param(
            {**ONE_FLOW, "clusters": ("A", "B", "a/b")},
            [
                (
                    "clusters: 'a/b' is not a valid alias: use A-Z a-z 0-9 . _ - (it becomes part "
                    "of topic names)"
                )
            ],
            id="alias",
        ),
    ],
)
def test_problems_of_the_cluster_list(settings: Mapping[str, Raw], expected: list[str]) -> None:
    assert problems_of(settings) == expected


def test_without_a_flow_all_problems_are_reported_at_once_as_well() -> None:
    settings = {
        **TWO_CLUSTERS,
        "topcis": "a",
        "B.security.protocol": "SASL_SSL",
        "B.sasl.mechanism": "PLAIN",
        "A->B.replication.policy.separator": "/",
        "B->A.replication.mode": "x",
        "state.dir": "here",
    }

    assert sorted(text.partition(":")[0] for text in problems_of(settings)) == [
        "A->B.replication.policy.separator",
        "B->A.replication.mode",
        "B.sasl.jaas.config",
        "state.dir",
        "topcis",
    ]


def test_all_problems_are_reported_at_once_in_file_order() -> None:
    settings = {**ONE_FLOW, "replication.mode": "x", "topcis": "a", "A->B.replication.factor": "z"}
    lines = {"replication.mode": 9, "topcis": 3, "A->B.replication.factor": 5}

    assert problems_of(settings, lines) == [
        "topcis: unknown key; did you mean topics? (line 3)",
        "A->B.replication.factor: 'z' is invalid; write a whole number, for example 2 (line 5)",
        ("replication.mode: 'x' is invalid; write auto, realtime, microbatch or drain (line 9)"),
    ]


def test_remote_topics_are_not_deleted_under_identity_naming() -> None:
    settings = {"replication.deletions.enabled": "true", "replication.policy.class": IDENTITY}

    assert problems_of({**ONE_FLOW, **settings}) == [
        (
            "replication.deletions.enabled: is not possible under IdentityReplicationPolicy, where "
            "a remote topic cannot be told from the target's own topics; write false"
        )
    ]
