"""Tokens, pages of lists and charts: the rules of `serve` that need no server."""

import base64
import math
import re
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replication.figures.minutes import CountedMinutes
from replication.model import Flow
from replication.serve.answers import freshness_answer
from replication.serve.charts import Line, Point, chart, short, sparkline, thin
from replication.serve.dependencies import CursorError, ListQuery, PagingError, page_of
from replication.serve.tokens import find_caller, new_token, parse_tokens

AB = Flow("A", "B")
VALUES = {"name": lambda row: row[0], "lag": lambda row: row[1]}
Rows = list[tuple[str, float | None]]
rows_of = st.lists(
    st.tuples(st.text("ab0", min_size=1, max_size=3), st.none() | st.integers(0, 3)),
    unique_by=lambda row: row[0],
)


@given(rows_of, st.integers(1, 4), st.sampled_from(["name", "-name", "lag", "-lag"]))
def test_all_pages_together_are_the_list_once_and_in_order(
    rows: Rows, limit: int, sort: str
) -> None:
    found: Rows = []
    cursor: str | None = ""
    while cursor is not None:
        page = page_of(rows, ListQuery(limit, cursor, "", sort), lambda row: row[0], VALUES)
        assert page.total == len(rows)
        found += page.items
        cursor = page.next
    whole = page_of(rows, ListQuery(1000, "", "", sort), lambda row: row[0], VALUES).items
    assert found == list(whole)
    assert sorted(found) == sorted(rows, key=lambda row: (row[0],))
    known = [row[1] for row in found if row[1] is not None]
    if "lag" in sort:
        assert known == sorted(known, reverse=sort.startswith("-"))
        assert [row[1] for row in found][len(known) :] == [None] * (len(rows) - len(known))


@given(rows_of, st.data())
def test_what_goes_between_two_pages_takes_nothing_with_it(rows: Rows, data: st.DataObject) -> None:
    first = page_of(rows, ListQuery(2, "", "", "-lag"), lambda row: row[0], VALUES)
    if first.next is None:
        return
    gone = data.draw(st.sampled_from(rows))
    left = [row for row in rows if row != gone]
    rest = page_of(left, ListQuery(1000, first.next, "", "-lag"), lambda row: row[0], VALUES)
    assert {*first.items, *rest.items} - {gone} == set(left)
    assert not set(first.items) & set(rest.items)


@pytest.mark.parametrize("cursor", ["!", "AAAA", "bnVsbA", "WyJuYW1lIiwgIiIsIDAsIDEsICJhIl0", "é"])
def test_a_cursor_of_another_list_is_refused(cursor: str) -> None:
    with pytest.raises(CursorError, match="none of this list"):
        page_of([("a", 1.0)], ListQuery(1, cursor, "", "lag"), lambda row: row[0], VALUES)


def test_a_list_is_sorted_by_what_it_has() -> None:
    with pytest.raises(PagingError, match="'-colour' is unknown; write one of name, lag"):
        page_of([("a", 1.0)], ListQuery(1, "", "", "-colour"), lambda row: row[0], VALUES)


def test_a_token_is_known_by_its_secret_alone() -> None:
    (reader, read), (writer, write) = new_token("ann", "read"), new_token("bob", "write")
    tokens = parse_tokens(f"\n# two\n{reader.line()}\n  {writer.line()}  \n")
    assert [find_caller(tokens, secret) for secret in (read, write)] == [
        reader.caller,
        writer.caller,
    ]
    assert find_caller(tokens, "") is None
    assert find_caller(tokens, reader.digest) is None
    assert read not in reader.line()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("ann", "line 1: write name:role:sha256"),
        ("ann:admin:00", "line 1: 'admin' is no role; write read or write"),
        ("ann:read:00", "line 1: the digest of ann must have 64 digits"),
        (f"# x\nann:read:{'0' * 64}\nann:write:{'1' * 64}", "line 3: a second token of 'ann'"),
    ],
)
def test_a_line_that_is_none_is_named(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=re.escape(problem)):
        parse_tokens(text)


@pytest.mark.parametrize("name", ["", "a b", "a:b", "x" * 65])
def test_a_name_of_a_token_has_no_sign_of_the_file(name: str) -> None:
    with pytest.raises(ValueError, match="is no name of a token"):
        new_token(name, "read")


points_of = st.lists(st.none() | st.floats(0, 1e9), min_size=1, max_size=2000).map(
    lambda values: [(float(at), value) for at, value in enumerate(values)]
)


@given(points_of)
def test_a_thinned_line_keeps_its_extremes_and_gaps(points: list[Point]) -> None:
    kept = thin(points)
    assert len(kept) <= max(300, min(len(points), 300))
    assert list(kept) == sorted(kept, key=lambda point: point[0])
    assert set(kept) <= set(points)
    known = [value for _, value in points if value is not None]
    if known:
        left = [value for _, value in kept if value is not None]
        assert (min(left), max(left)) == (min(known), max(known))
    assert any(value is None for _, value in kept) == any(value is None for _, value in points)


@given(points_of, st.text(max_size=20))
def test_a_chart_is_well_formed_whatever_it_shows(points: list[Point], name: str) -> None:
    text = "".join(char for char in name if char.isprintable())
    drawn = chart([Line(text, tuple(points))], text, "s")
    if drawn:
        root = ET.fromstring(drawn)  # noqa: S314 - our own
        assert "nan" not in drawn.lower().replace(text.lower(), "")
        assert root.attrib["aria-label"] == text
    assert not drawn or sparkline(points, text)


@pytest.mark.parametrize(
    ("values", "top", "is_cut"),
    [
        ([1.7e8, 1.6e8, 30.0, 0.5, 4.0], "40 s", True),
        ([1.7e8, None, 0.5, 4.0], "4 s", True),
        ([1.7e8, 0.5, 1.6e8], "2000 d", False),
        ([1.7e8, 1.6e8], "2000 d", False),
        ([0.5, 3000.0, 0.5], "1 h", False),
        ([30.0, 4.0], "40 s", False),
        ([0.0, 0.0], "4 s", False),
    ],
)
def test_a_chart_is_not_scaled_by_what_a_first_start_has_caught_up_with(
    values: list[float | None], top: str, *, is_cut: bool
) -> None:
    points = tuple((float(at), value) for at, value in enumerate(values))
    root = ET.fromstring(chart([Line("lag", points)], "lag", "s"))  # noqa: S314 - our own
    texts = [found.text for found in root.iter() if found.tag == "text"]
    highest = min(float(found.attrib["cy"]) for found in root.iter() if found.tag == "circle")

    assert texts[4] == top
    assert ("at first up to 1967 d 14 h" in texts) is is_cut
    assert highest >= 8, "nothing is drawn above the chart"
    assert len([*root.iter("circle")]) == len([value for value in values if value is not None])


SHORT = {0: "0", 0.6: "0.6", 0.00123: "0.0012", 412: "412", 9999: "9999", 10_213.4: "10.2k"}


@pytest.mark.parametrize(("value", "text"), [*SHORT.items(), (2_500_000, "2.5M"), (3e9, "3G")])
def test_a_number_is_short(value: float, text: str) -> None:
    assert short(value) == text
    assert math.isfinite(value)


@pytest.mark.parametrize(
    "parts", ['["-lag", "", [], 1, "x"]', "[" * 3000, '["-lag", "", 0, 1, null]']
)
def test_an_odd_cursor_is_none_of_the_list(parts: str) -> None:
    cursor = base64.urlsafe_b64encode(parts.encode()).decode().rstrip("=")
    with pytest.raises(CursorError):
        page_of([("a", 1.0)], ListQuery(1, cursor, "", "-lag"), lambda row: row[0], VALUES)


def test_a_flow_has_43_late_minutes_in_a_month() -> None:
    fresh = freshness_answer(AB, 30.0, CountedMinutes(10_000, late=5, paused=7))

    assert (fresh["fresh_share"], fresh["late_minutes"], fresh["left_minutes"]) == (0.9995, 5, 38.2)
    assert fresh["paused_minutes"] == 7
    missed = freshness_answer(AB, 30.0, CountedMinutes(10_000, late=50, paused=0))
    assert missed["left_minutes"] == -6.8
    for unknown in (None, CountedMinutes(0, 0, 0)):
        found = freshness_answer(AB, 30.0, unknown)
        assert found["left_minutes"] is found["fresh_share"] is found["minutes"] is None
