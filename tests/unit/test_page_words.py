"""What pages say first: figures in words, a sentence for each flow, the map of their ways."""

import math
import time
from collections.abc import Mapping
from dataclasses import replace
from itertools import permutations
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from replication.figures.observation import SEVERITIES, Code, Condition, text_of
from replication.model import Flow
from replication.serve.answers import flow_answer
from replication.serve.charts import Line, chart
from replication.serve.flow_map import Way, flow_map
from replication.serve.formats import about, ago, counted, cut, number, rate, span
from replication.serve.sentences import (
    by_tone,
    headline,
    kinds,
    sentence,
    tone,
)
from replication.serve.snapshots import FlowSnapshot
from tests.support.serving import observed

SPANS = {
    None: "-",
    0: "0 s",
    0.0415: "41.5 ms",
    0.6: "600 ms",
    0.99996: "1 s",
    4.24: "4.2 s",
    59.4: "59 s",
    59.6: "1 min",
    212.3422: "3 min 32 s",
    86_400 * 2.5: "2 d 12 h",
    -0.5: "-500 ms",
}


@pytest.mark.parametrize("seconds", SPANS)
def test_a_time_is_said_in_words(seconds: float | None) -> None:
    assert span(seconds) == SPANS[seconds]


def test_a_number_has_a_unit_and_no_digits_that_say_nothing() -> None:
    assert [number(each) for each in (None, 0.0, 39.2, 182.7, 10_213.4)] == [
        "-",
        "0",
        "39.2",
        "183",
        "10\u202f213",
    ]
    assert [counted(each, "record") for each in (None, 0, 1, 2548)] == [
        "unknown",
        "0 records",
        "1 record",
        "2\u202f548 records",
    ]
    assert [rate(None), rate(1.5e6)] == ["-", "1.5 MB/s"]
    assert ago(text_of(time.time() - 19_810)) == "5 h 30 min ago"
    assert cut("a" * 10, 9) == "aaaaaaaaa… (1 character more)"


def test_an_event_says_what_it_is_about() -> None:
    span_of = {"partition": 3, "offset_from": 120, "offset_until": 130}
    at: Mapping[str, str | int] = {"topic": "orders", **span_of}
    assert about(at) == "orders-3, offsets 120 to 129"
    assert about({**at, "offset_until": 121}) == "orders-3, offset 120"
    assert about({**at, "offset_until": 90}) == "orders-3, offset from 120, offset until 90"
    assert about({"topic": "orders", "offset_from": 7}) == "orders, offset from 7"
    assert about({"cluster": "A", "later": 1}) == "cluster A, later 1"


def condition(code: Code, topic: str | None = None) -> Condition:
    return Condition(code, SEVERITIES[code], time.time() - 60, f"{code} holds", "mend", topic)


def answer(*conditions: Condition, **other: Any) -> Mapping[str, Any]:  # noqa: ANN401
    look = replace(observed(), conditions=conditions, **other)
    return flow_answer(FlowSnapshot(look.flow, look))


ASIDE = tuple(condition("set-aside", f"t{number}") for number in range(5000))
AGO = time.time() - 60.5 * 3600  # 2 d 12 h, also on a machine that is slow
SAID = {
    "running and well": answer(),
    "running, bad: set aside (5\u202f000 topics), map old": answer(*ASIDE, condition("map-old")),
    "running, degraded: lag above slo (orders)": answer(condition("lag-above-slo", "orders")),
    "waiting (slots) and well": answer(state="waiting", reason="slots"),
    "running and well, catching up": answer(labelled={"partitions": {"catching-up": 2}}),
    "running and well, lag of 2 partitions unknown": answer(
        figures={"lag_unknown_partitions": 2.0}
    ),
    f"running, degraded: lag above slo ({'x' * 60}… (189 characters more))": answer(
        condition("lag-above-slo", "x" * 249)
    ),
    "stopped 2 d 12 h ago": answer(state="stopped", ended_at=AGO, exit_code=0),
    "failed 2 d 12 h ago, exit code 1, bad: it broke": answer(
        state="failed", ended_at=AGO, exit_code=1, text="it broke"
    ),
    "unknown: nothing was heard": flow_answer(
        FlowSnapshot(Flow("A", "B"), text="nothing was heard")
    ),
    "silent: no word; it was running 2 d 12 h ago": flow_answer(
        FlowSnapshot(Flow("A", "B"), replace(observed(), as_of=AGO), is_silent=True, text="no word")
    ),
}


@pytest.mark.parametrize("said", SAID)
def test_a_flow_is_one_sentence(said: str) -> None:
    assert sentence(SAID[said]) == said


def test_the_worst_flow_is_said_first() -> None:
    found = by_tone(SAID.values())
    tones = list(map(tone, found))
    assert tones == ["bad"] * 3 + ["unknown"] + ["degraded"] * 2 + ["ok"] * 4 + ["ended"]
    assert headline(found) == "11 flows: 3 bad, 1 unknown, 2 degraded, 4 well, 1 ended"
    assert headline(found[6:9]) == "3 flows: all well"
    assert headline(found[4:5]) == "1 flow: degraded"


def test_what_repeats_is_one_kind() -> None:
    found = kinds(answer(*ASIDE, condition("map-old"), condition("stalled", "t1"))["conditions"])
    assert [(kind.title, kind.about, len(kind.rows)) for kind in found] == [
        ("set aside", "5\u202f000 topics", 5000),
        ("map old", "", 1),
        ("stalled", "t1", 1),
    ]


NAMES = ("us-west", "us-east", "eu", "x" * 249, "<a&b>")


def way(source: str, target: str, **other: Any) -> Way:  # noqa: ANN401
    given = {"tone": "ok", "rate": 0.0, "text": f"{source}→{target}", "link": "/", **other}
    return Way(source, target, **given)


@pytest.mark.parametrize("clusters", [2, 3, 4, 5])
def test_a_map_has_an_arrow_for_each_flow_and_a_box_for_each_cluster(clusters: int) -> None:
    ways = [way(*pair, rate=float(n)) for n, pair in enumerate(permutations(NAMES[:clusters], 2))]
    root = ET.fromstring(flow_map(ways))  # noqa: S314 - our own
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    assert len(root.findall("a")) == len(ways)
    boxes = [each.attrib for each in root.iter("rect")]
    assert len(boxes) == clusters
    for box in boxes:
        x, y, across, down = (float(box[name]) for name in ("x", "y", "width", "height"))
        assert x >= 0
        assert y >= 0
        assert x + across <= width
        assert y + down <= height
    shown = {str(title.text) for title in root.findall("g/title")}
    assert shown == set(NAMES[:clusters])
    middles: dict[str, tuple[float, ...]] = {}
    for link in root.findall("a"):
        steers = link[1].attrib["d"].partition("Q")[2].split()[:2]
        middles[link.attrib["aria-label"]] = tuple(map(float, steers))
    for source, target in permutations(NAMES[:clusters], 2):
        there, back = middles[f"{source}→{target}"], middles[f"{target}→{source}"]
        assert math.dist(there, back) > 20, "no arrow lies on the one that leads back"


def test_an_arrow_is_as_wide_as_its_rate_and_has_the_sign_of_its_health() -> None:
    ways = [
        way("A", "B", rate=100.0),
        way("B", "A", rate=25.0),
        way("A", "C", rate=None, tone="unknown"),
        way("C", "A", rate=0.0, tone="bad"),
    ]
    root = ET.fromstring(flow_map(ways))  # noqa: S314 - our own
    drawn = {each.attrib["aria-label"]: each for each in root.findall("a")}
    wide = {name: float(each[1].attrib["stroke-width"]) for name, each in drawn.items()}
    assert wide == {"A→B": 6.0, "B→A": 3.8, "A→C": 1.5, "C→A": 1.5}
    signs = {name: [text.text for text in each.findall("text")] for name, each in drawn.items()}
    assert signs == {"A→B": [], "B→A": [], "A→C": ["?"], "C→A": ["✖"]}
    assert drawn["C→A"].attrib["class"] == "health-bad"


def test_a_map_of_many_clusters_grows() -> None:
    ways = [way(f"a{n}", f"a{(n + 1) % 60}", rate=1.0) for n in range(60)]
    assert len(ET.fromstring(flow_map(ways)).findall("a")) == 60  # noqa: S314 - our own
    assert "nan" not in flow_map([])


def test_a_chart_of_seconds_has_words_and_ends_now() -> None:
    points = ((0.0, 0.0), (60.0, 212.3))
    drawn = chart([Line("lag", points)], "Lag", "s", 3600.0)
    texts = [each.text for each in ET.fromstring(drawn).iter("text")]  # noqa: S314 - our own
    assert texts[:5] == ["0 s", "1 min", "2 min", "3 min", "4 min"]
    assert texts[5:] == ["00:00:00", "01:00:00"]
    assert "lag 00:01:00: 3 min 32 s<" in drawn
    flat = chart([Line("lag", ((0.0, 0.0), (60.0, 0.0)))], "Lag", "s")
    assert ">4 s<" in flat
