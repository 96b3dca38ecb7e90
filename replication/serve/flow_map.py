"""A map of clusters with an arrow for each flow, as SVG made on the server. Pure."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from replication.serve.sentences import SIGNS, Tone

Spot = tuple[float, float]

_LETTERS: Final = 15
"""Letters of a cluster's name that are shown; a title has all of it."""

_FOR: Final = 6
"""Clusters that fit the least map; more make it greater, and then a browser makes it smaller."""

_WIDTH, _HEIGHT = 440, 300
_ROW: Final = 96
"""The height of a map of two clusters, which stand side by side."""

_BOX: Final = 15
"""Half the height of a cluster's box."""

_GAP, _HEAD, _BOW = 4.0, 9.0, 0.13
_THIN, _THICK = 1.5, 6.0
_STEPS: Final = 100


@dataclass(frozen=True, slots=True)
class Way:
    """One flow on the map; *rate* is what it copies in a second, None where that is unknown."""

    source: str
    target: str
    tone: Tone
    rate: float | None
    text: str
    link: str


def flow_map(ways: Sequence[Way]) -> str:
    """Returns the map of *ways*: an arrow's colour is its health, its width its rate."""
    names = list(dict.fromkeys(name for way in ways for name in (way.source, way.target)))
    more = max(1.0, len(names) / _FOR)
    width, height = _WIDTH * more, (_ROW if len(names) <= 2 else _HEIGHT * more)  # noqa: PLR2004
    places = _places(names, width, height)
    pairs = {(way.source, way.target) for way in ways}
    most = max((way.rate or 0 for way in ways), default=0)
    size = f'viewBox="0 0 {width:.0f} {height:.0f}"'
    parts = [f'<svg class="map" {size} role="group" aria-label="Clusters and their flows">']
    for way in sorted(ways, key=lambda each: list(SIGNS).index(each.tone), reverse=True):
        share = math.sqrt((way.rate or 0) / most) if most else 0
        bow = _BOW if (way.target, way.source) in pairs else 0
        parts += _arrow(way, places, bow, _THIN + share * (_THICK - _THIN))
    for name, (x, y) in places.items():
        half = _half(name)
        shown = name if len(name) <= _LETTERS else f"{name[: _LETTERS - 1]}…"
        parts.append(
            f'<g class="cluster"><title>{escape(name)}</title>'
            f'<rect x="{x - half:.1f}" y="{y - _BOX:.1f}" width="{2 * half:.1f}" '
            f'height="{2 * _BOX}" rx="5"/>'
            f'<text x="{x:.1f}" y="{y + 5:.1f}" text-anchor="middle">{escape(shown)}</text></g>'
        )
    return "".join([*parts, "</svg>"])


def _places(names: Sequence[str], width: float, height: float) -> dict[str, Spot]:
    """Returns the middle of each cluster's box, on an ellipse; two stand side by side."""
    half = max(map(_half, names), default=0)
    begin = {2: math.pi, 4: -0.75 * math.pi}.get(len(names), -math.pi / 2)
    across, down = width / 2 - half - 2, height / 2 - _BOX - 2
    return {
        name: (
            width / 2 + across * math.cos(begin + 2 * math.pi * place / len(names)),
            height / 2 + down * math.sin(begin + 2 * math.pi * place / len(names)),
        )
        for place, name in enumerate(names)
    }


def _half(name: str) -> float:
    return 4.2 * min(len(name), _LETTERS) + 12


def _arrow(way: Way, places: dict[str, Spot], bow: float, wide: float) -> Iterator[str]:
    """Yields a line whose begin a box will hide, its head, and the sign of what is not well."""
    begin, end = places[way.source], places[way.target]
    # a flow and the one that leads back bow to different sides
    middle = (
        (begin[0] + end[0]) / 2 - bow * (end[1] - begin[1]),
        (begin[1] + end[1]) / 2 + bow * (end[0] - begin[0]),
    )

    def at(share: float) -> Spot:
        return _between(_between(begin, middle, share), _between(middle, end, share), share)

    def is_near(spot: Spot) -> bool:
        across, down = abs(spot[0] - end[0]), abs(spot[1] - end[1])
        return across < _half(way.target) + _GAP and down < _BOX + _GAP

    # from the end back: the first point outside of its box, and from there the length of a head
    steps = [1 - step / _STEPS for step in range(_STEPS + 1)]
    last = next((step for step in steps if not is_near(at(step))), 0.0)
    tip, long = at(last), _HEAD + wide
    neck = next((s for s in steps if s < last and math.dist(at(s), tip) > long), 0.0)
    (x1, y1), (x2, y2), (x3, y3) = begin, _between(begin, middle, neck), at(neck)
    dx, dy = (tip[0] - x3) / long * (wide / 2 + 4), (tip[1] - y3) / long * (wide / 2 + 4)
    yield (
        f'<a class="health-{way.tone}" href="{escape(way.link)}" tabindex="-1" '
        f'aria-label="{escape(way.text)}"><title>{escape(way.text)}</title>'
        f'<path class="way" stroke-width="{wide:.1f}" '
        f'd="M{x1:.1f} {y1:.1f}Q{x2:.1f} {y2:.1f} {x3:.1f} {y3:.1f}"/>'
        f'<path class="head" d="M{tip[0]:.1f} {tip[1]:.1f}L{x3 - dy:.1f} {y3 + dx:.1f}'
        f'L{x3 + dy:.1f} {y3 - dx:.1f}Z"/>'
    )
    if way.tone != "ok":
        x, y = at(0.5)
        yield (
            f'<circle class="sign" cx="{x:.1f}" cy="{y:.1f}" r="10"/>'
            f'<text x="{x:.1f}" y="{y + 5:.1f}" text-anchor="middle">{SIGNS[way.tone]}</text>'
        )
    yield "</a>"


def _between(one: Spot, other: Spot, share: float) -> Spot:
    return one[0] + share * (other[0] - one[0]), one[1] + share * (other[1] - one[1])
