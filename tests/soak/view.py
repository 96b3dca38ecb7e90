"""What the operator sees during a soak, by `serve` beside the driver: it must not grow."""

import re
import subprocess
import threading
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from datetime import datetime
from http.client import HTTPException

from tests.soak.growth import (
    Look,
    has_grown,
    leaks,
    lived,
    lost_minutes,
    repeated_minutes,
    series_of,
    whole,
)
from tests.soak.scene import Scene
from tests.support.mirror_files import FLOW
from tests.support.process_tree import own_memory, program
from tests.support.serve_process import serve_process
from tests.support.serving import Served

LOOK_SECONDS = 5.0
WEIGH_SECONDS = 240.0
JVM_SECONDS = 20.0
TOTAL = re.compile(r"^Total\s+\d+\s+(\d+)", re.MULTILINE)
MB = 1 << 20


class ViewWatch(AbstractContextManager["ViewWatch"]):
    """Runs `serve`, looks at its answers every few seconds, and weighs it and the driver."""

    def __init__(self, scene: Scene) -> None:
        self.looks: list[Look] = []
        self.weights: dict[str, list[int]] = {}
        self.failures = 0
        self._scene = scene
        self._resources = ExitStack()
        self._over = threading.Event()
        self._thread = threading.Thread()

    def __enter__(self) -> "ViewWatch":  # noqa: PYI034 - typing has Self from 3.11
        """Starts `serve` and begins to look."""
        file = self._scene.configs[0]
        opened = serve_process(file, self._scene.folder / "serve.log")
        served, process = self._resources.enter_context(opened)
        self._thread = threading.Thread(
            target=self._run, args=(served, process.pid), name="view of the soak", daemon=True
        )
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Ends both."""
        self._over.set()
        self._thread.join(2 * JVM_SECONDS)
        self._resources.close()

    def _run(self, served: Served, pid: int) -> None:
        due = time.monotonic() + WEIGH_SECONDS / 2  # the first owner has begun by then
        while not self._over.wait(LOOK_SECONDS):
            try:
                self._look(served)
            except (OSError, HTTPException, KeyError, ValueError):
                self.failures += 1
            if time.monotonic() >= due:
                due = time.monotonic() + WEIGH_SECONDS
                self._note("serve", own_memory(pid))
                self._weigh_driver()

    def _look(self, served: Served) -> None:
        answer = served.ask(f"/api/v1/flows/{FLOW.source}/{FLOW.target}").json
        if answer["as_of"] is None:
            return
        as_of = datetime.fromisoformat(answer["as_of"].replace("Z", "+00:00")).timestamp()
        owner = answer["owner"]
        who = None if owner is None else (owner["pid"], owner["since"])
        flow, topics = series_of(served.ask("/metrics").text)
        self.looks.append(Look(as_of, answer["state"], who, flow, topics))

    def _weigh_driver(self) -> None:
        """Notes what the driver's two processes have, if it lives."""
        job = self._scene.mirrors.active()
        if job is None:
            return
        with suppress(OSError):  # it ends
            for pid in job.family():
                if program(pid) == "java":
                    self._note(f"driver's heap {pid}", self._live_bytes(pid))
                elif program(pid).startswith("python"):
                    self._note(f"driver's Python {pid}", own_memory(pid))

    def _live_bytes(self, pid: int) -> int | None:
        """What the heap of a JVM holds once all garbage is gone; the whole count is kept."""
        command = ["jcmd", str(pid), "GC.class_histogram"]
        try:
            found = subprocess.run(
                command, capture_output=True, text=True, timeout=JVM_SECONDS, check=True
            )
        except (subprocess.SubprocessError, OSError):
            return None
        count = len(self.weights.get("serve", ()))
        (self._scene.folder / f"heap-{count:02}-{pid}.txt").write_text(found.stdout)
        total = TOTAL.search(found.stdout)
        return None if total is None else int(total[1])

    def _note(self, what: str, size: int | None) -> None:
        if size is not None:
            self.weights.setdefault(what, []).append(size)

    def told(self, rows: Sequence[float]) -> list[str]:
        """Returns what was seen, a line each; *rows* are the times of the rows of history."""
        if not (seen := whole(self.looks)):
            return ["the view was never there"]
        states = {look.state for look in self.looks}
        first, last = seen[min(10, len(seen) - 1)], seen[-1]
        due, lost = lost_minutes(self.looks, rows)
        told = {
            "view": f"{len(self.looks)} looks, {self.failures} without an answer",
            "owners": str(len(lived(self.looks))),
            "states": ", ".join(sorted(states)),
            "series": f"{first.series} of {first.topics} topics, then {last.series} of "
            f"{last.topics}",
            "history": f"{len(rows)} rows; {due} minutes were seen whole by an owner, {len(lost)} "
            "of them have no row",
        }
        for what, sizes in self.weights.items():
            told[f"{what}, MB"] = " ".join(f"{size / MB:.1f}" for size in sizes)
        return [f"{name}: {value}" for name, value in told.items()]

    def problems(self, rows: Sequence[float]) -> list[str]:
        """Returns what must not be: no view, more series, more memory, or gaps of history."""
        if not whole(self.looks):
            return ["the view was never there"]
        found = [f"series leak: {line}" for line in leaks(self.looks)]
        found += [
            f"memory leak: {what}" for what, sizes in self.weights.items() if has_grown(sizes)
        ]
        if repeated := repeated_minutes(self.looks, rows):
            found.append(f"minutes with more rows of history than owners: {repeated}")
        _, lost = lost_minutes(self.looks, rows)
        if lost and self._scene.is_driver_spared:  # one that is killed loses up to five minutes
            found.append(f"minutes without a row of history: {lost}")
        return found
