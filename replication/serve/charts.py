"""A chart as SVG, made on the server: it needs no script and can be read by anybody. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import dropwhile
from typing import Final

from replication.serve.formats import clock, moment, span

MOST_POINTS: Final = 300
WIDTH: Final = 440
HEIGHT: Final = 150
_LEFT: Final = 70
_BOTTOM: Final = 18
_TOP: Final = 8
_LINES: Final = 4
_TOPS: Final = (
    *(4 * step / 1000 for step in (1, 5, 10, 50, 100, 250, 500)),
    *(4 * step for step in (1, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200)),
    *(4 * 3600 * step for step in (4, 6, 12)),
)
"""Greatest values of a chart of seconds; each is four steps that read well."""

FAR: Final = 20

Point = tuple[float, float | None]
"""A time in epoch seconds, and a value; None where nothing is known."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a chart, by its name; the order gives the colours."""

    name: str
    points: tuple[Point, ...]


def thin(points: Sequence[Point], most: int = MOST_POINTS) -> tuple[Point, ...]:
    """Returns at most *most* of the *points*; the least and the greatest of each part stay.

    A gap stays a gap: of a part in which something is unknown, one unknown point is kept.
    """
    if len(points) <= most:
        return tuple(points)
    parts = max(1, most // 3)
    kept: list[Point] = []
    for number in range(parts):
        part = points[number * len(points) // parts : (number + 1) * len(points) // parts]
        known = [point for point in part if point[1] is not None]
        chosen = [next((point for point in part if point[1] is None), None)]
        if known:
            chosen += [min(known, key=_value), max(known, key=_value)]
        kept += sorted({point for point in chosen if point is not None}, key=lambda p: p[0])
    return tuple(kept)


def sparkline(points: Sequence[Point], title: str) -> str:
    """Returns a small chart without axes."""
    shown = thin(points, 60)
    known = [value for _, value in shown if value is not None]
    if not known:
        return ""
    box = _Box(shown[0][0], shown[-1][0], max(*known, 1e-9), 100, 20, 0, 0, 1)
    return (
        f'<svg class="sparkline" viewBox="0 0 100 20" role="img" aria-label="{escape(title)}">'
        f"{_path(shown, box, 0)}</svg>"
    )


def chart(lines: Sequence[Line], title: str, unit: str, now: float = 0) -> str:
    """Returns a chart of *lines* until *now* with axes, a legend, and a title for each point.

    Seconds are shown in words with their unit, as everywhere; any other number has none.
    """
    is_time = unit == "s"
    written = span if is_time else short
    shown = [Line(line.name, thin(line.points)) for line in lines]
    points = [point for line in shown for point in line.points]
    known = [value for _, value in points if value is not None]
    if not known:
        return ""
    times = [at for at, _ in points]
    greatest = max(map(_greatest, shown))
    top = _round_up_time(greatest or _TOPS[7]) if is_time else _round_up(greatest)
    box = _Box(min(times), max(*times, now), top, WIDTH, HEIGHT, _LEFT, _BOTTOM, _TOP)
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}"'
    parts = [f'<svg class="chart" {size} role="img" aria-label="{escape(title)}">']
    for number in range(_LINES + 1):
        value = top * number / _LINES
        y = box.y(value)
        parts.append(
            f'<line class="grid" x1="{_LEFT}" x2="{WIDTH}" y1="{y:.1f}" y2="{y:.1f}"/>'
            f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{written(value)}</text>'
        )
    for number, line in enumerate(shown):
        parts.append(_path(line.points, box, number))
        parts += [
            f'<circle class="point line-{number}" cx="{box.x(at):.1f}" cy="{box.y(value):.1f}" '
            f'r="4"><title>{escape(line.name)} {clock(at)}: '
            f"{written(value)}{'' if is_time else f' {escape(unit)}'}</title>"
            f"</circle>"
            for at, value in line.points
            if value is not None
        ]
    if max(known) > top:
        text = f"at first up to {written(max(known))}"
        parts.append(f'<text x="{_LEFT + 6}" y="{_TOP + 14}">{text}</text>')
    label = clock if box.end - box.begin <= 86_400 else moment  # noqa: PLR2004 - a day
    parts.append(f'<text x="{_LEFT}" y="{HEIGHT - 4}">{label(box.begin)}</text>')
    parts.append(f'<text x="{WIDTH}" y="{HEIGHT - 4}" text-anchor="end">{label(box.end)}</text>')
    return "".join([*parts, "</svg>"])


def short(value: float) -> str:
    """Returns *value* as a person reads it: 0.6, 412, 10.2k, 3.1M."""
    for factor, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= factor:
            scale = 1e3 if letter == "k" else factor
            return f"{value / scale:.3g}{letter}"
    return f"{value:.4g}" if abs(value) >= 1 or value == 0 else f"{value:.2g}"


@dataclass(frozen=True, slots=True)
class _Box:
    """Where a chart draws."""

    begin: float
    end: float
    top_value: float
    width: int
    height: int
    left: int
    bottom: int
    top: int

    def x(self, at: float) -> float:
        """Returns the place of a time."""
        share = (at - self.begin) / (self.end - self.begin) if self.end > self.begin else 1
        return self.left + share * (self.width - self.left - 4)

    def y(self, value: float) -> float:
        """Returns the place of a value, at the top if it is greater than the chart shows."""
        share = min(1.0, value / self.top_value)
        return self.height - self.bottom - share * (self.height - self.bottom - self.top)


def _value(point: Point) -> float:
    return point[1] if point[1] is not None else 0.0


def _path(points: Sequence[Point], box: _Box, number: int) -> str:
    steps, is_gap = [], True
    for at, value in points:
        if value is not None:
            steps.append(f"{'M' if is_gap else 'L'}{box.x(at):.1f} {box.y(value):.1f}")
        is_gap = value is None
    return f'<path class="line line-{number}" d="{"".join(steps)}"/>'


def _greatest(line: Line) -> float:
    """Returns the greatest value of *line*, but of what it began with and has left far behind.

    A first start catches up with records that are years old; nothing else could be read then.
    """
    known = [value for _, value in line.points if value is not None]
    few = known[0] / FAR if known else 0.0
    rest = max(dropwhile(lambda value: value > few, known), default=few + 1)
    return rest if rest <= few else max(known, default=0.0)


def _round_up(value: float) -> float:
    """Returns the next number that reads well: 1, 2, 2.5, 5 times a power of ten."""
    if value <= 0:
        return 1.0
    power = 10.0 ** (len(str(int(value))) - 1) if value >= 1 else 1e-3
    while power * 10 <= value:
        power *= 10
    return next(power * step for step in (1, 2, 2.5, 5, 10) if power * step >= value)


def _round_up_time(seconds: float) -> float:
    """Returns the next number of seconds whose quarters read well: 4 s, 2 min, 1 h, 4 d."""
    return next((top for top in _TOPS if top >= seconds), 345_600 * _round_up(seconds / 345_600))
