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
    """Yields the line from one box to the other, its head, and the sign of what is not well."""
    begin, end = places[way.source], places[way.target]
    # a flow and the one that leads back bow to different sides
    middle = (
        (begin[0] + end[0]) / 2 - bow * (end[1] - begin[1]),
        (begin[1] + end[1]) / 2 + bow * (end[0] - begin[0]),
    )

    def at(first: float, second: float) -> Spot:
        """Returns the bow's point where both are equal, else what steers the part between them."""
        one, two, three = (
            (1 - first) * (1 - second),
            (1 - first) * second + first * (1 - second),
            first * second,
        )
        return (
            one * begin[0] + two * middle[0] + three * end[0],
            one * begin[1] + two * middle[1] + three * end[1],
        )

    steps = [step / _STEPS for step in range(_STEPS + 1)]
    outside = [
        step
        for step in steps
        if not _is_near(at(step, step), begin, _half(way.source))
        and not _is_near(at(step, step), end, _half(way.target))
    ]
    first, last = (outside[0], outside[-1]) if outside else (0.0, 1.0)
    tip = at(last, last)
    long = _HEAD + wide
    neck = next(
        (step for step in reversed(steps) if step < last and math.dist(at(step, step), tip) > long),
        first,
    )
    (x1, y1), (x2, y2), (x3, y3) = at(first, first), at(first, neck), at(neck, neck)
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
        x, y = at((first + last) / 2, (first + last) / 2)
        yield (
            f'<circle class="sign" cx="{x:.1f}" cy="{y:.1f}" r="10"/>'
            f'<text x="{x:.1f}" y="{y + 5:.1f}" text-anchor="middle">{SIGNS[way.tone]}</text>'
        )
    yield "</a>"


def _is_near(spot: Spot, box: Spot, half: float) -> bool:
    """Returns whether *spot* is inside a box, or touches it."""
    return abs(spot[0] - box[0]) < half + _GAP and abs(spot[1] - box[1]) < _BOX + _GAP
