"""ACL sync: the source's ACLs in, what to create and to remove on the target out."""

from datetime import datetime, timezone

import pytest

from replication.config.tree import FlowConfig
from replication.model import TopicAcl
from replication.topics.acls import AclHistory, AclPlan, plan_acls
from tests.support.settings import IDENTITY, ONE_FLOW, parse_settings


def acl(text: str) -> TopicAcl:
    """``ALLOW READ orders``, or ``DENY ALL orders-* u1 10.0.0.1`` for a prefix and another user."""
    permission, operation, name, *rest = text.split()
    principal, host = rest or ("alice", "*")
    is_prefix = name.endswith("*") and name != "*"
    if is_prefix:
        prefix = name.removesuffix("*")
        return TopicAcl(prefix, "PREFIXED", f"User:{principal}", host, operation, permission)
    return TopicAcl(name, "LITERAL", f"User:{principal}", host, operation, permission)


def flow(**settings: str) -> FlowConfig:
    """The flow A->B; ``_`` in a key stands for a dot."""
    keys = {key.replace("_", "."): value for key, value in settings.items()}
    return parse_settings({**ONE_FLOW, **keys}).flows[0]


def created(source: str, **settings: str) -> list[TopicAcl]:
    """What the target gets for one ACL of the source."""
    return list(plan_acls(flow(**settings), [acl(source)], [], []).create)


# As in MirrorMaker 2.
@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param("ALLOW READ orders", "ALLOW READ A.orders", id="reading"),
        pytest.param("ALLOW ALL orders", "ALLOW READ A.orders", id="all becomes reading"),
        pytest.param("ALLOW WRITE orders", None, id="writing is not copied"),
        pytest.param("ALLOW DESCRIBE orders", "ALLOW DESCRIBE A.orders", id="describing"),
        pytest.param("ALLOW CREATE orders", "ALLOW CREATE A.orders", id="creating"),
        pytest.param("ALLOW DELETE orders", "ALLOW DELETE A.orders", id="deleting"),
        pytest.param("ALLOW ALTER orders", "ALLOW ALTER A.orders", id="altering"),
        pytest.param(
            "ALLOW ALTER_CONFIGS orders", "ALLOW ALTER_CONFIGS A.orders", id="altering settings"
        ),
        pytest.param("DENY READ orders", "DENY READ A.orders", id="a prohibition"),
        pytest.param("DENY WRITE orders", "DENY WRITE A.orders", id="a prohibition to write"),
        pytest.param("DENY ALL orders", "DENY ALL A.orders", id="a prohibition of everything"),
        pytest.param(
            "ALLOW READ orders bob 10.0.0.1", "ALLOW READ A.orders bob 10.0.0.1", id="user, host"
        ),
        pytest.param("ALLOW READ secret", None, id="an excluded topic"),
        pytest.param("ALLOW READ B.orders", None, id="a topic that came from the target"),
        pytest.param("ALLOW READ __consumer_offsets", None, id="an internal topic"),
        pytest.param("ALLOW READ heartbeats", "ALLOW READ A.heartbeats", id="heartbeats"),
        pytest.param("ALLOW READ orders*", None, id="a prefix"),
    ],
)
def test_the_acls_of_replicated_topics_are_copied_without_the_permission_to_write(
    source: str, expected: str | None
) -> None:
    assert created(source, topics_exclude="secret") == ([acl(expected)] if expected else [])


def test_the_acl_of_any_topic_is_copied_as_it_is_like_mirrormaker_does() -> None:
    literal = acl("ALLOW ALL *")
    identity = {"replication_policy_class": IDENTITY}

    assert created("ALLOW ALL *", **identity) == [acl("ALLOW READ *")]
    (useless,) = created("ALLOW ALL *")
    assert (useless.topic, useless.pattern, useless.operation) == ("A.*", "LITERAL", "READ")
    assert plan_acls(flow(topics="orders.*"), [literal], [], []) == AclPlan()


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param("ALLOW ALL ord*", "ALLOW READ A.ord*", id="a prefix"),
        pytest.param("ALLOW WRITE ord*", None, id="writing is not copied"),
        pytest.param("DENY READ ord*", "DENY READ A.ord*", id="a prohibition"),
        pytest.param("ALLOW READ secret*", None, id="an excluded prefix"),
        pytest.param("ALLOW READ *", "ALLOW READ A.*", id="any topic: the prefix of all copies"),
        pytest.param("ALLOW READ orders", "ALLOW READ A.orders", id="one topic, as before"),
    ],
)
def test_prefixes_are_copied_if_the_flow_says_so(source: str, expected: str | None) -> None:
    settings = {"topics_exclude": "secret.*", "replication_acls_prefixed_enabled": "true"}

    assert created(source, **settings) == ([acl(expected)] if expected else [])


def test_with_identity_naming_any_topic_stays_any_topic() -> None:
    settings = {
        "replication_policy_class": IDENTITY,
        "replication_acls_prefixed_enabled": "true",
    }

    assert created("ALLOW READ *", **settings) == [acl("ALLOW READ *")]


def test_only_what_is_missing_is_created_and_prohibitions_come_first() -> None:
    source = [acl(f"{permission} READ t{n}") for n in (1, 2) for permission in ("ALLOW", "DENY")]

    plan = plan_acls(flow(), source, [acl("ALLOW READ A.t1")], [])

    assert [str(acl) for acl in plan.create] == [
        "DENY READ A.t1 to User:alice from *",
        "DENY READ A.t2 to User:alice from *",
        "ALLOW READ A.t2 to User:alice from *",
    ]


MINE, ANOTHERS = acl("ALLOW READ A.old"), acl("ALLOW READ A.theirs")


@pytest.mark.parametrize(
    ("removal", "source", "expected"),
    [
        pytest.param("true", [], AclPlan(remove=(MINE,)), id="removed"),
        pytest.param("false", [], AclPlan(keep=(MINE,)), id="kept, as in MirrorMaker 2"),
        pytest.param("true", ["ALLOW ALL old"], AclPlan(), id="asked for by another ACL"),
        pytest.param("true", ["ALLOW WRITE old"], AclPlan(remove=(MINE,)), id="only writing left"),
    ],
)
def test_what_the_flow_created_and_is_gone_on_the_source_is_removed_if_the_flow_says_so(
    removal: str, source: list[str], expected: AclPlan
) -> None:
    config = flow(replication_acls_removal_enabled=removal)

    plan = plan_acls(config, [acl(text) for text in source], [MINE, ANOTHERS], [MINE])

    assert plan == expected


def test_an_acl_stays_while_the_source_has_it_even_if_the_topic_is_excluded() -> None:
    config = flow(topics_exclude="old", replication_acls_removal_enabled="true")

    assert plan_acls(config, [acl("ALLOW READ old")], [MINE], [MINE]) == AclPlan()


def test_an_acl_that_is_gone_on_both_sides_is_no_longer_the_flows_own() -> None:
    config = flow(replication_acls_removal_enabled="true")

    assert plan_acls(config, [], [ANOTHERS], [MINE]) == AclPlan(forget=(MINE,))


def test_a_wanted_acl_that_somebody_removed_on_the_target_stays_the_flows_own() -> None:
    config = flow(replication_acls_removal_enabled="true")

    plan = plan_acls(config, [acl("ALLOW READ old")], [], [MINE])

    assert plan == AclPlan(create=(MINE,))


def row(second: int, action: str, rejection: str | None = None) -> dict[str, object]:
    return {
        "action": action,
        "remote_topic": MINE.topic,
        "pattern": MINE.pattern,
        "principal": MINE.principal,
        "host": MINE.host,
        "operation": MINE.operation,
        "permission": MINE.permission,
        "rejection": rejection,
        "at": datetime(2026, 1, 1, second=second, tzinfo=timezone.utc),
    }


@pytest.mark.parametrize(
    ("rows", "mine", "rejected"),
    [
        pytest.param([row(1, "create")], {MINE}, set(), id="created"),
        pytest.param([row(2, "remove"), row(1, "create")], set(), set(), id="removed later"),
        pytest.param([row(1, "create"), row(2, "forget")], set(), set(), id="gone"),
        pytest.param([row(1, "create", "no")], set(), {("create", MINE)}, id="rejected"),
        pytest.param([row(1, "create", "no"), row(2, "create")], {MINE}, set(), id="then accepted"),
        pytest.param(
            [row(1, "create"), row(2, "remove", "no")], {MINE}, {("remove", MINE)}, id="still there"
        ),
    ],
)
def test_the_rows_of_the_table_tell_what_the_flow_created(
    rows: list[dict[str, object]], mine: set[TopicAcl], rejected: set[tuple[str, TopicAcl]]
) -> None:
    assert AclHistory.of(rows) == AclHistory(mine, rejected)
