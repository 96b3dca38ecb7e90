"""What operators change of a flow, and what all of their changes come to."""

import json
from dataclasses import replace
from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from replication.config.changes import (
    LONGEST_REASON,
    NO_CHANGES,
    Change,
    Paused,
    What,
    fold,
    parse_change,
    parse_changes,
    problems_of,
    text_of_changes,
)
from replication.config.limits import Limit
from replication.foreign_json import to_json
from replication.model import Flow, TopicPartition
from tests.support.remote_topics import flow_config
from tests.support.settings import ONE_FLOW, parse_settings

FLOW = Flow("A", "B")
TOPICS = ("clicks", "orders", "orders.*", "a|b")
PAUSES = (*TOPICS, "clicks:3", "orders:0")
LAST: list[What] = ["pause", "topics.add", "topics.remove", "resume"]
KINDS: list[What] = [*LAST, "groups.exclude", "hold", "release", "limit", "undo"]


def change(number: int, what: What, *items: str, scope: str = "", uid: int = 0) -> Change:
    at = "2026-11-26T19:00:00.000Z"
    return Change(FLOW, what, items, scope, "ann@desk", at, "CHG-117", number, f"{uid:032x}")


@st.composite
def some_changes(draw: st.DrawFn) -> list[Change]:
    """Changes of all kinds, some with the number of another one, as two writers make them."""
    made: list[Change] = []
    for uid in range(draw(st.integers(0, 12))):
        number = max([each.number for each in made], default=0) + draw(st.sampled_from([0, 1, 1]))
        what = draw(st.sampled_from(KINDS))
        items: tuple[str, ...] = (draw(st.sampled_from(TOPICS)),)
        scope = ""
        if what in ("pause", "resume"):
            items = draw(st.sampled_from([(), *((item,) for item in PAUSES)]))
        elif what in ("hold", "release"):
            items = (draw(st.sampled_from(["dr-1", "dr-2"])),)
        elif what == "limit":
            items, scope = ("bytes=20000",), draw(st.sampled_from(["", "clicks"]))
        elif what == "undo":
            names = [each.name for each in made]
            items = (draw(st.sampled_from(names)),) if names else (f"{0:010d}-{0:032x}",)
        made.append(change(number, what, *items, scope=scope, uid=uid))
    return made


@given(some_changes(), st.randoms())
def test_neither_the_order_of_a_listing_nor_a_repetition_counts(
    changes: list[Change], random: Random
) -> None:
    listed = [*changes, *changes[:2]]
    random.shuffle(listed)

    assert fold(listed) == fold(changes)
    assert fold(listed).changes == fold(changes).changes
    assert fold(listed).in_force == fold(changes).in_force


@given(some_changes(), st.sampled_from(LAST))
def test_to_undo_the_last_change_is_the_state_before(changes: list[Change], what: What) -> None:
    number = max([each.number for each in changes], default=0)
    last = change(number + 1, what, "orders", uid=100)
    undo = change(number + 2, "undo", last.name, uid=101)
    again = change(number + 3, "undo", undo.name, uid=102)

    assert fold([*changes, last, undo]) == fold(changes)
    assert fold([*changes, last, undo]).in_force == fold(changes).in_force
    assert fold([*changes, last, undo, again]) == fold([*changes, last])


@given(some_changes())
def test_a_change_is_read_as_it_was_written(changes: list[Change]) -> None:
    for each in changes:
        assert parse_change(json.dumps(to_json(each)), each.name) == each
    assert set(parse_changes(text_of_changes(changes))) == set(changes)


ITEMS = st.lists(
    st.text(st.characters(exclude_characters="[](){}?*+|\\\\^$."), min_size=1), min_size=1
)


@settings(max_examples=30)
@given(ITEMS, st.sampled_from(["topics.add", "groups.add", "groups.exclude", "pause"]), st.text())
@example([" g\u00a0"], "groups.add", "two\r\nlines\ufeff")
@example(["\udcff"], "groups.add", "")
def test_whatever_is_taken_is_read_as_it_was_written(
    items: list[str], what: What, reason: str
) -> None:
    made = replace(change(1, what, *items), reason=reason)

    assert problems_of(made) or parse_change(json.dumps(to_json(made)), made.name) == made


def test_ten_thousand_changes_are_folded_at_once() -> None:
    kinds: list[tuple[What, str]] = [
        ("topics.add", "orders"),
        ("pause", "clicks:1"),
        ("resume", "c.*"),
        ("pause", "orders"),
    ]
    changes = [
        change(number, what, f"{item}" if number % 2 else item, uid=number)
        for number in range(1, 9_001)
        for what, item in [kinds[number % 4]]
    ]
    changes += [change(n, "undo", changes[n - 5000].name, uid=n) for n in range(9_001, 10_001)]

    steering = fold(changes)

    assert steering.number == 10_000
    assert len(steering.undone) == 1000
    assert steering.paused == Paused(topics=("orders",))


def test_the_lists_of_the_file_come_first_and_the_changes_on_top() -> None:
    config = flow_config("orders, clicks")
    steering = fold(
        [
            change(1, "topics.add", "events.*"),
            change(2, "topics.remove", "clicks"),
            change(3, "topics.exclude", "events.tmp"),
            change(4, "topics.include", "__.*"),
            change(5, "groups.add", "billing"),
        ]
    )

    overlaid = steering.overlaid(config)

    assert overlaid.topics == ("orders", "events.*")
    assert "events.tmp" in overlaid.topics_exclude
    assert "__.*" not in overlaid.topics_exclude
    assert overlaid.selects("events.one")
    assert not overlaid.selects("events.tmp")
    assert not overlaid.selects("clicks")
    assert overlaid.groups.groups == (".*", "billing")
    assert NO_CHANGES.overlaid(config) is config


def test_the_last_change_of_an_item_decides_wherever_the_item_comes_from() -> None:
    add, remove = change(1, "topics.add", "orders"), change(2, "topics.remove", "orders")

    assert fold([add, remove]).overlaid(flow_config("orders")).topics == ()
    assert fold([remove, replace(add, number=3)]).overlaid(flow_config("x")).topics == (
        "x",
        "orders",
    )


def test_a_change_that_the_file_has_by_itself_is_without_effect() -> None:
    add, pause = change(1, "topics.add", "orders"), change(2, "pause", uid=1)

    assert fold([add, pause]).with_effect(flow_config("orders")) == (pause,)
    assert fold([add, pause]).with_effect(flow_config("clicks")) == (add, pause)


def test_the_state_of_a_change_is_what_became_of_it() -> None:
    add, pause = change(1, "topics.add", "orders", uid=1), change(2, "pause", uid=2)
    resume, undone = change(3, "resume", uid=3), change(4, "topics.exclude", "x", uid=4)
    undo = change(5, "undo", undone.name, uid=5)
    steering = fold([add, pause, resume, undone, undo])

    def states(topics: str) -> list[str]:
        config = flow_config(topics)
        return [steering.state_of(each, config) for each in steering.changes]

    later = ["replaced by a later change", "in force", "undone", "in force"]
    assert states("clicks") == ["in force", *later]
    assert states("orders") == ["without effect: the file says the same", *later]


def test_a_pause_covers_the_flow_its_topics_or_a_partition() -> None:
    paused = fold([change(1, "pause", "orders.*", "clicks:3")]).paused

    assert paused.covers(TopicPartition("orders.eu", 7))
    assert paused.covers(TopicPartition("clicks", 3))
    assert not paused.covers(TopicPartition("clicks", 2))
    assert fold([change(1, "pause")]).paused.covers(TopicPartition("x", 0))
    assert not fold([]).paused


def test_resuming_a_topic_resumes_its_partitions_and_nothing_else() -> None:
    before = [change(1, "pause", "clicks:3", "clicks", "orders:1"), change(2, "pause")]

    assert fold([*before, change(3, "resume", "clicks")]).paused == Paused(
        flow=True, partitions=frozenset({TopicPartition("orders", 1)})
    )
    assert fold([*before, change(3, "resume", "c.*")]).paused.topics == ("clicks",)
    assert fold([*before, change(3, "resume")]).paused.topics == ("clicks",)
    orders = [TopicPartition("orders", 1), TopicPartition("orders", 2)]
    assert fold(before[:1]).paused.among(orders) == orders[:1]


def test_a_hold_pauses_the_flow_until_its_own_release() -> None:
    holds = [change(1, "hold", "op-1"), change(2, "hold", "op-2"), change(3, "resume")]

    assert fold(holds).paused.flow
    assert fold([*holds, change(4, "release", "op-1")]).held == ("op-2",)
    assert not fold([*holds, change(4, "release", "op-1", "op-2")]).paused


def test_the_last_limit_of_a_scope_wins() -> None:
    limits = fold(
        [
            change(1, "limit", "bytes=20000", "records=10"),
            change(2, "limit", "bytes=5000", scope="clicks"),
            change(3, "limit", "bytes=0"),
        ]
    ).limits

    assert {scope: each.items for scope, each in limits.items()} == {
        "": ("bytes=0",),
        "clicks": ("bytes=5000",),
    }


def test_limits_lie_on_top_of_those_of_the_file() -> None:
    settings = {"replication.limit.bytes.per.second": "1MB", "replication.limit.topics": "a 1MB"}
    (config,) = parse_settings({**ONE_FLOW, **settings}).flows
    steering = fold(
        [
            change(1, "limit", "bytes=0"),
            change(2, "limit", "records=7", scope="a"),
            change(3, "limit", "bytes=5000", scope="b"),
        ]
    )

    assert steering.overlaid(config).limits == (Limit("a", None, 7), Limit("b", 5_000))
    assert fold([]).overlaid(config).limits == (Limit(None, 1_000_000), Limit("a", 1_000_000))


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (change(1, "topics.add", "a,b"), "has a comma"),
        (change(1, "topics.add", "orders("), "not a supported pattern"),
        (change(1, "pause", "orders ["), "not a supported pattern"),
        (change(1, "topics.add", "two words"), "can match no name"),
        (change(1, "topics.add", ""), "an item is empty"),
        (change(1, "topics.add"), "needs at least one item"),
        (change(1, "undo", "12"), "is not the name of a change"),
        (change(1, "limit", "bytes=fast"), "write bytes=N"),
        (change(1, "limit", "bytes=1"), "pause instead"),
        (change(1, "pause", "orders", scope="orders"), "only a limit has a scope"),
        (replace(change(1, "pause"), by=" "), "nobody is named"),
        (replace(change(1, "pause"), reason="x" * (LONGEST_REASON + 1)), "reason has more than"),
        (change(1, "topics.add", *map(str, range(1001))), "1001 items"),
    ],
)
def test_a_change_that_cannot_be_followed_is_refused(wrong: Change, says: str) -> None:
    assert says in " ".join(problems_of(wrong))
    with pytest.raises(ValueError, match=r".+"):
        parse_change(json.dumps(to_json(wrong)), wrong.name)


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "7", '{"flow": 3}', '{"flow": "A", "what": "pause"}', "[" * 100_000,
     '{"flow": "A->B", "what": "explode", "by": "x"}',
     '{"flow": "A->B", "what": "pause", "by": "x", "items": "orders"}',
     '{"flow": "A->B", "what": "pause", "by": "x", "items": [3]}'],
)  # fmt: skip
def test_what_is_no_change_says_so(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse_change(text, change(1, "pause").name)
    with pytest.raises(ValueError, match=r".+"):
        parse_changes(text)
