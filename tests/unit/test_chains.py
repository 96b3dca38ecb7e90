"""Which transforms a topic has, and what a plan of topics keeps of them."""

from dataclasses import replace

from replication.model import Topic, Transform
from replication.topics.topic_plan import chain_of, copy_rule, plan_topics
from tests.support.settings import ONE_FLOW, parse_settings

ALL = Transform(name="all", topics=(".*",), value="value")
SOME = Transform(name="some", topics=("orders.*", "x"), filter="true")
(PLAIN,) = parse_settings(ONE_FLOW).flows
CONFIG = replace(PLAIN, transforms=(ALL, SOME))


def test_a_topic_has_the_transforms_that_name_it_in_their_order() -> None:
    assert chain_of(CONFIG, "orders.eu") == (ALL, SOME)
    assert chain_of(CONFIG, "payments") == (ALL,)
    assert chain_of(PLAIN, "orders.eu") == ()


def test_heartbeats_stay_as_they_are() -> None:
    assert chain_of(CONFIG, "heartbeats") == chain_of(CONFIG, "us.heartbeats") == ()


def test_what_wrote_a_topic_is_not_what_the_file_says() -> None:
    written = replace(CONFIG, written_by={"orders": (SOME,), "payments": ()})
    assert chain_of(written, "orders") == (SOME,)
    assert chain_of(written, "payments") == ()
    assert chain_of(written, "others") == (ALL,)


def test_a_rule_has_the_chains_of_its_topics_and_nothing_of_others() -> None:
    rule = copy_rule(CONFIG, ["orders", "payments", "heartbeats"])
    assert rule.chains == {"orders": (ALL, SOME), "payments": (ALL,)}
    assert rule.only(["payments"]).chains == {"payments": (ALL,)}
    assert copy_rule(PLAIN, ["orders"]).only([]).chains == {}


def test_a_plan_with_other_transforms_is_another_plan() -> None:
    source = {name: Topic(name, f"id-{name}", 1) for name in ("orders", "payments")}
    before, after = (plan_topics(config, source, {}) for config in (PLAIN, CONFIG))
    assert before.transforms == {}
    assert after.transforms == {"orders": (ALL, SOME), "payments": (ALL,)}
    assert before.fingerprint != after.fingerprint
    assert before.beyond(after) is None
    assert after.without(["orders"]).transforms == {"payments": (ALL,)}
