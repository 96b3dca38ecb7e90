"""Limits as people write them, what is refused, and which of several is in force."""

from itertools import permutations
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replication.config.limits import (
    LEAST_BYTES,
    MOST_RATE,
    Limit,
    LimitError,
    bytes_text,
    merge,
    parse_bytes,
    parse_limit,
    parse_records,
    parse_topics_limit,
)
from tests.support.settings import ONE_FLOW, parse_settings, problems_of

if TYPE_CHECKING:
    from replication.config.values import Raw

RATES = st.none() | st.integers(LEAST_BYTES, MOST_RATE)
LIMITS = st.builds(Limit, st.sampled_from([None, "a", "b.*", "c"]), RATES, RATES)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("20MB", 20_000_000),
        ("20 MB/s", 20_000_000),
        ("1.5MB", 1_500_000),
        ("512KiB", 524_288),
        ("1gb", 1_000_000_000),
        ("1000", 1_000),
        ("20000000 B/s", 20_000_000),
    ],
)
def test_bytes_are_read_as_people_write_them(text: str, expected: int) -> None:
    assert parse_bytes(text) == expected


@pytest.mark.parametrize(("text", "expected"), [("5000", 5000), ("1 record/s", 1), ("7/s", 7)])
def test_records_are_read_as_people_write_them(text: str, expected: int) -> None:
    assert parse_records(text) == expected


@pytest.mark.parametrize("text", ["1", "0", "999", "0.9KB"])
def test_a_limit_below_a_kilobyte_is_refused_with_the_way_to_stop_all(text: str) -> None:
    with pytest.raises(LimitError, match=r"1 KB/s: pause instead"):
        parse_bytes(text)


@pytest.mark.parametrize("text", ["0", "0.5 records/s"])
def test_a_limit_below_a_record_is_refused_with_the_way_to_stop_all(text: str) -> None:
    with pytest.raises(LimitError, match=r"1 record/s: pause instead"):
        parse_records(text)


@pytest.mark.parametrize(
    "text", ["", "MB", "-1MB", "20 mb/min", "1e6", "20MB 30MB", "20TB", "nan", "٣MB", "1,5MB"]
)
def test_what_is_no_rate_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(LimitError, match="for example 20MB"):
        parse_bytes(text)


def test_a_rate_that_nothing_reaches_is_refused() -> None:
    with pytest.raises(LimitError, match="or less"):
        parse_bytes("999999999999999GB")


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        ("clicks.* 2MB/s", Limit("clicks.*", 2_000_000)),
        ("audit 500 records/s", Limit("audit", None, 500)),
        ("a|b 2 MB/s 500records", Limit("a|b", 2_000_000, 500)),
    ],
)
def test_an_item_names_topics_and_their_rates(item: str, expected: Limit) -> None:
    assert parse_topics_limit(item) == expected


@pytest.mark.parametrize(
    ("item", "text"),
    [
        ("clicks", "has no rate"),
        ("clicks 2MB 3MB", "two rates in bytes"),
        ("clicks 2MB 10", "with MB or records"),
        ("clicks( 2MB", "is not a supported pattern"),
        ("clicks 10B", "pause instead"),
        ("clicks 2MB 3MB/min", "two rates in bytes"),
    ],
)
def test_an_item_that_is_no_limit_is_refused_with_the_reason(item: str, text: str) -> None:
    with pytest.raises(LimitError, match=text):
        parse_topics_limit(item)


def test_a_limit_says_itself_in_words() -> None:
    assert str(Limit(None, 20_000_000, 5_000)) == "20 MB/s and 5000 records/s"
    assert str(Limit("clicks.*", 1_500)) == "1.5 KB/s for clicks.*"
    assert str(Limit("clicks.*")) == "no limit for clicks.*"
    assert bytes_text(19_800_000) == "19.8 MB/s"


@given(LIMITS)
def test_the_items_of_a_change_say_the_same_limit(limit: Limit) -> None:
    assert Limit.of_items(limit.items, limit.topics) == limit


@pytest.mark.parametrize(
    ("items", "limit"),
    [
        (["none"], Limit()),
        (["bytes=20MB"], Limit(None, 20_000_000)),
        (["records=5/s", "bytes=1KB"], Limit(None, 1_000, 5)),
    ],
)
def test_an_operator_says_rates_or_none(items: list[str], limit: Limit) -> None:
    assert parse_limit(items) == limit


@pytest.mark.parametrize(
    ("items", "text"),
    [
        (["bytes=0"], "limit --none"),
        (["bytes=5MB", "records=0"], "limit --none"),
        (["none", "bytes=5MB"], "write none .* and nothing else"),
        (["bytes=fast"], "is no rate"),
    ],
)
def test_a_rate_of_nothing_is_not_taken_for_no_limit(items: list[str], text: str) -> None:
    with pytest.raises(LimitError, match=text):
        parse_limit(items)


@pytest.mark.parametrize(
    ("items", "text"),
    [
        (["bytes=1"], "pause instead"),
        (["bytes=-5"], "for example bytes=20000000"),
        (["bytes"], "for example bytes=20000000"),
        (["bytes=٣"], "for example bytes=20000000"),
        (["bytes=" + 5000 * "9"], "for example bytes=20000000"),
        (["speed=1000"], "for example bytes=20000000"),
    ],
)
def test_items_that_are_no_limit_are_refused(items: list[str], text: str) -> None:
    with pytest.raises(LimitError, match=text):
        Limit.of_items(items)


@given(st.lists(LIMITS))
def test_the_last_limit_of_a_scope_wins_as_a_whole(limits: list[Limit]) -> None:
    merged = merge(limits)

    for scope in {limit.topics for limit in limits}:
        last = [limit for limit in limits if limit.topics == scope][-1]
        assert [limit for limit in merged if limit.topics == scope] == [last] * (not last.is_none)


@given(st.lists(LIMITS, unique_by=lambda limit: limit.topics))
def test_limits_of_different_scopes_do_not_depend_on_their_order(limits: list[Limit]) -> None:
    assert {merge(order) for order in permutations(limits)} == {merge(limits)}


def test_a_limit_of_topics_covers_whole_names() -> None:
    assert Limit("a.*").covers("ab")
    assert not Limit("a").covers("ab")
    assert Limit().covers("anything")


def test_a_file_limits_a_flow_and_its_topics() -> None:
    settings: dict[str, Raw] = {
        "A->B.replication.limit.bytes.per.second": "20 MB/s",
        "replication.limit.records.per.second": "5000",
        "replication.limit.topics": ("clicks{1,2} 2MB/s", "audit 500 records/s"),
    }
    (flow,) = parse_settings({**ONE_FLOW, **settings}).flows

    assert flow.limits == (
        Limit(None, 20_000_000, 5_000),
        Limit("audit", None, 500),
        Limit("clicks{1,2}", 2_000_000),
    )
    assert parse_settings(ONE_FLOW).flows[0].limits == ()


def test_a_wrong_limit_is_said_before_spark_starts_with_its_key() -> None:
    wrong = {
        "A->B.replication.limit.bytes.per.second": "1",
        "replication.limit.records.per.second": "many",
        "replication.limit.topics": "a 1MB/s, a 2MB/s, b",
    }

    assert sorted(problems_of({**ONE_FLOW, **wrong})) == [
        (
            "A->B.replication.limit.bytes.per.second: 1 is below the lowest limit, 1 KB/s: pause "
            "instead; for no limit leave the key out, and end the limit of a running flow with "
            "limit --none (by REST the item none)"
        ),
        "replication.limit.records.per.second: 'many' is no rate: write for example 5000",
        "replication.limit.topics: 'a' has two limits",
        "replication.limit.topics: 'b' has no rate: write for example 'b 2MB/s 500records/s'",
    ]
