"""Topic names on both clusters, by examples of MirrorMaker 2's own rules."""

import pytest

from replication.mm2.policy import IdentityPolicy, PrefixPolicy, is_cycle

DOT = PrefixPolicy()
UNDERSCORE = PrefixPolicy("_", "_")
IDENTITY = IdentityPolicy(source="source")


@pytest.mark.parametrize(
    ("policy", "topic", "expected"),
    [
        pytest.param(DOT, "a.b", ("a", "b"), id="plain"),
        pytest.param(DOT, "a..b", ("a", ".b"), id="two separators"),
        pytest.param(DOT, ".b", ("", "b"), id="separator first"),
        pytest.param(DOT, "a.", (None, None), id="separator last"),
        pytest.param(DOT, "a..", (None, None), id="separators last"),
        pytest.param(DOT, ".", (None, None), id="separator alone"),
        pytest.param(DOT, "a.b.", ("a", "b."), id="separator last, but remote"),
        pytest.param(DOT, "a", (None, None), id="local"),
        pytest.param(DOT, "", (None, None), id="empty"),
        pytest.param(UNDERSCORE, "_x", ("", "x"), id="underscore first"),
        pytest.param(UNDERSCORE, "x_", (None, None), id="underscore last"),
        pytest.param(UNDERSCORE, "a.b_c", ("a.b", "c"), id="dots in an alias"),
        pytest.param(PrefixPolicy("--"), "a--b-c", ("a", "b-c"), id="longer separator"),
        pytest.param(IDENTITY, "a.b", ("source", "a.b"), id="identity"),
        pytest.param(IDENTITY, "heartbeats", (None, None), id="identity, heartbeats"),
        pytest.param(
            IDENTITY, "a.heartbeats", ("a", "heartbeats"), id="identity, remote heartbeats"
        ),
        pytest.param(IDENTITY, "my-heartbeats", (None, None), id="identity, similar name"),
        pytest.param(IdentityPolicy(source=None), "b", (None, "b"), id="identity, no alias"),
    ],
)
def test_source_and_upstream_topic_are_read_from_a_name(
    policy: PrefixPolicy, topic: str, expected: tuple[str | None, str | None]
) -> None:
    assert (policy.topic_source(topic), policy.upstream_topic(topic)) == expected


@pytest.mark.parametrize(
    ("policy", "topic", "expected"),
    [
        pytest.param(DOT, "orders", "us.orders", id="default"),
        pytest.param(UNDERSCORE, "orders", "us_orders", id="separator"),
        pytest.param(UNDERSCORE, "heartbeats", "us_heartbeats", id="heartbeats"),
        pytest.param(IDENTITY, "orders", "orders", id="identity"),
        pytest.param(IDENTITY, "heartbeats", "us.heartbeats", id="identity, heartbeats"),
        pytest.param(IDENTITY, "my-heartbeats", "us.my-heartbeats", id="identity, similar name"),
    ],
)
def test_the_name_of_a_remote_topic(policy: PrefixPolicy, topic: str, expected: str) -> None:
    assert policy.remote_topic("us", topic) == expected


@pytest.mark.parametrize(
    ("policy", "topic", "expected"),
    [
        pytest.param(DOT, "a.b.orders", "orders", id="two hops"),
        pytest.param(DOT, "orders", "orders", id="none"),
        pytest.param(DOT, "a.b.", "b.", id="separator last"),
        pytest.param(IDENTITY, "a.b.orders", "a.b.orders", id="identity"),
        pytest.param(IDENTITY, "a.b.heartbeats", "heartbeats", id="identity, heartbeats"),
    ],
)
def test_the_original_topic_has_no_hops(policy: PrefixPolicy, topic: str, expected: str) -> None:
    assert policy.original_topic(topic) == expected


@pytest.mark.parametrize(
    ("policy", "topic", "expected"),
    [
        pytest.param(DOT, "heartbeats", True, id="the topic itself"),
        pytest.param(DOT, "A.B.heartbeats", True, id="two hops"),
        pytest.param(DOT, "my.heartbeats", True, id="a user's topic, taken for a remote one"),
        pytest.param(DOT, "my-heartbeats", False, id="another name"),
        pytest.param(UNDERSCORE, "us-west.heartbeats", False, id="another separator"),
        pytest.param(UNDERSCORE, "us-west_heartbeats", True, id="this separator"),
    ],
)
def test_which_topics_are_heartbeats_topics(
    policy: PrefixPolicy, topic: str, *, expected: bool
) -> None:
    assert policy.is_heartbeats_topic(topic) is expected


@pytest.mark.parametrize(
    ("policy", "topic", "expected"),
    [
        pytest.param(DOT, "__consumer_offsets", True, id="Kafka's"),
        pytest.param(DOT, ".hidden", True, id="dot first"),
        pytest.param(DOT, "mm2-offset-syncs.us.internal", True, id="offset syncs"),
        pytest.param(DOT, "mm2-configs.us.internal", True, id="Connect's"),
        pytest.param(DOT, "us.checkpoints.internal", True, id="checkpoints"),
        pytest.param(DOT, "checkpoints.internal", False, id="checkpoints of no alias"),
        pytest.param(DOT, "orders.internal", False, id="a user's, copied since 4.0"),
        pytest.param(DOT, "orders-internal", False, id="a user's with a dash"),
        pytest.param(UNDERSCORE, "mm2-configs.us.internal", False, id="Connect's always has dots"),
        pytest.param(UNDERSCORE, "us_checkpoints_internal", True, id="separator"),
        pytest.param(PrefixPolicy("_"), "us.checkpoints.internal", True, id="internal separator"),
        pytest.param(IDENTITY, "mm2-offset-syncs.us.internal", True, id="identity"),
    ],
)
def test_which_topics_are_internal(policy: PrefixPolicy, topic: str, *, expected: bool) -> None:
    assert policy.is_internal_topic(topic) is expected


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        pytest.param(
            DOT,
            ("heartbeats", "us.checkpoints.internal", "mm2-offset-syncs.us.internal"),
            id="default",
        ),
        pytest.param(
            UNDERSCORE,
            ("heartbeats", "us_checkpoints_internal", "mm2-offset-syncs_us_internal"),
            id="separator",
        ),
        pytest.param(
            PrefixPolicy("_"),
            ("heartbeats", "us.checkpoints.internal", "mm2-offset-syncs.us.internal"),
            id="separator, not internal",
        ),
    ],
)
def test_the_names_of_internal_topics(policy: PrefixPolicy, expected: tuple[str, str, str]) -> None:
    names = (policy.heartbeats_topic(), policy.checkpoints_topic("us"))

    assert (*names, policy.offset_syncs_topic("us")) == expected


@pytest.mark.parametrize(
    ("policy", "topic", "expected"),
    [
        pytest.param(DOT, "target.t", True, id="from the target"),
        pytest.param(DOT, "target.source.t", True, id="to the target and back"),
        pytest.param(DOT, "source.target.t", True, id="back to the target"),
        pytest.param(DOT, "target.source.target.t", True, id="twice"),
        pytest.param(DOT, "source.target.source.t", True, id="twice, from here"),
        pytest.param(DOT, "source.t", True, id="own alias, 4.4"),
        pytest.param(DOT, "topic1", False, id="local"),
        pytest.param(DOT, "othersource.topic1", False, id="from elsewhere"),
        pytest.param(DOT, "other.another.topic1", False, id="over two hops"),
        pytest.param(IDENTITY, "topic1", False, id="identity"),
        pytest.param(IDENTITY, "target.topic1", False, id="identity, no alias in the name"),
        pytest.param(IDENTITY, "target.heartbeats", True, id="identity, heartbeats"),
        pytest.param(IDENTITY, "source.target.heartbeats", True, id="identity, heartbeats back"),
        pytest.param(IDENTITY, "heartbeats", False, id="identity, own heartbeats"),
        pytest.param(IDENTITY, "othersource.heartbeats", False, id="identity, from elsewhere"),
        pytest.param(IdentityPolicy(source=None), "topic1", False, id="identity, no alias"),
    ],
)
def test_which_names_are_cycles(policy: PrefixPolicy, topic: str, *, expected: bool) -> None:
    assert is_cycle(policy, topic, source="source", target="target") is expected
