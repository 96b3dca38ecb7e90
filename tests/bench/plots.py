"""Draws the figures of a race's JSON file as PNG files beside it.

matplotlib draws them, which only `./spark-submit.sh --setup bench` installs:

    .local/venv/bin/python -m tests.bench.plots .local/bench/20260101T000000Z-race.json
    .local/venv/bin/python -m tests.bench.plots FILE --folder .
"""

import argparse
import importlib.util
import json
import statistics
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Results = Sequence[Mapping[str, Any]]
"""The ``results`` of the file: one for each contender and round."""

COLOURS: Final = ("#1f77b4", "#ff7f0e", "#2ca02c", "#d62728")
INCHES_WIDE, INCHES_HIGH, DOTS_PER_INCH = 9, 4, 120
LOWEST_SHARE: Final = 0.5
MEGA: Final = 1e6
INSTALL: Final = "./spark-submit.sh --setup bench"


def is_installed() -> bool:
    """Whether matplotlib can be imported."""
    return importlib.util.find_spec("matplotlib") is not None


def draw(file: Path, folder: Path) -> list[Path]:
    """Draws what *file* holds, throughput and latency; returns the files, which are in *folder*."""
    document = json.loads(file.read_text())
    results, size_bytes = document["results"], document["settings"]["size"]
    folder.mkdir(parents=True, exist_ok=True)
    drawn = []
    if any(result["throughput"] for result in results):
        drawn.append(_throughput(results, size_bytes, folder / f"{file.stem}-throughput.png"))
    if any(result["latencies"] for result in results):
        drawn.append(_latency(results, folder / f"{file.stem}-latency.png"))
    return drawn


def rounds(results: Results, size_bytes: int) -> dict[str, dict[str, list[float]]]:
    """Of each panel, each contender's figure in each round."""
    panels: dict[str, dict[str, list[float]]] = {"MB/s": {}, "CPU µs per record": {}}
    for result in results:
        if run := result["throughput"]:
            mb = run["records"] / run["seconds"] * size_bytes / MEGA
            cpu_us = run["used"]["cpu_seconds"] / run["records"] * 1e6
            for panel, value in zip(panels.values(), (mb, cpu_us), strict=True):
                panel.setdefault(result["name"], []).append(value)
    return panels


def curves(results: Results) -> dict[float, dict[str, list[tuple[float, float]]]]:
    """By rate and contender: shares, and the median over the rounds of the latency there in ms."""
    found: dict[float, dict[str, dict[float, list[float]]]] = defaultdict(
        lambda: defaultdict(lambda: defaultdict(list))
    )
    for result in results:
        for run in result["latencies"]:
            for share, ms in run["curve"]:
                found[run["rate"]][result["name"]][share].append(ms)
    return {
        rate: {
            name: [(share, statistics.median(values)) for share, values in sorted(curve.items())]
            for name, curve in by_name.items()
        }
        for rate, by_name in sorted(found.items())
    }


def _throughput(results: Results, size_bytes: int, file: Path) -> Path:
    def panel(axes: "Axes", title: str, found: Mapping[str, Sequence[float]]) -> None:
        names = list(found)
        medians = [statistics.median(found[name]) for name in names]
        below = [median - min(found[name]) for name, median in zip(names, medians, strict=True)]
        above = [max(found[name]) - median for name, median in zip(names, medians, strict=True)]
        axes.bar(
            names, medians, yerr=[below, above], capsize=6, width=0.6, color=COLOURS[: len(names)]
        )
        for at, name in enumerate(names):
            axes.plot([at] * len(found[name]), found[name], "k.", alpha=0.5)
        axes.set_title(f"{title}: median, least and greatest")
        axes.set_ylim(bottom=0)

    panels = rounds(results, size_bytes)
    return _figure(file, [lambda axes, item=item: panel(axes, *item) for item in panels.items()])


def _latency(results: Results, file: Path) -> Path:
    def panel(axes: "Axes", rate: float, by_name: Mapping[str, list[tuple[float, float]]]) -> None:
        for colour, (name, curve) in zip(COLOURS, by_name.items(), strict=False):
            upper = [(1 / (1 - share), ms) for share, ms in curve if share >= LOWEST_SHARE]
            axes.plot(*zip(*upper, strict=True), label=name, color=colour, marker=".")
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xticks([2, 10, 100, 1000, 10_000], ["p50", "p90", "p99", "p99.9", "p99.99"])
        axes.tick_params(axis="x", which="minor", bottom=False)
        axes.set_title(f"ms at {rate:,g} records/s")
        axes.grid(visible=True, which="major", alpha=0.3)
        axes.legend()

    panels = curves(results)
    return _figure(file, [lambda axes, item=item: panel(axes, *item) for item in panels.items()])


def _figure(file: Path, panels: Sequence[Any]) -> Path:
    from matplotlib.figure import Figure  # noqa: PLC0415 - it may not be installed

    figure = Figure(figsize=(INCHES_WIDE, INCHES_HIGH), dpi=DOTS_PER_INCH, layout="constrained")
    every = figure.subplots(1, len(panels), squeeze=False)[0]
    for axes, panel in zip(every, panels, strict=True):
        panel(axes)
    figure.savefig(file)
    return file


def main() -> int:
    """Draws, and prints the names of the files; the exit code is 2 without matplotlib."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("file", type=Path, help="the JSON file of a race")
    parser.add_argument("--folder", type=Path, help="for the PNG files; by default the file's own")
    options = parser.parse_args()
    if not is_installed():
        print(f"matplotlib is not installed: run {INSTALL}", file=sys.stderr)  # noqa: T201
        return 2
    for drawn in draw(options.file, options.folder or options.file.parent):
        print(drawn)  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
