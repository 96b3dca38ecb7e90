"""Questions that take long hold up nothing that is answered from memory."""

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import cycle, islice
from pathlib import Path

import pytest

from replication.config.tree import FlowConfig, MirrorConfig
from replication.control.starts import Acceptance
from replication.control.translate import Question
from replication.model import Flow
from replication.offsets.guard import StartOffset
from replication.serve.bounds import AT_ONCE, WAITING
from replication.serve.questions import Figures, Questions
from replication.serve.snapshots import FlowSnapshot
from replication.serve.tokens import new_token
from tests.support.serving import Served, observed, serving
from tests.support.waiting import wait_until

ASKED = 40
"""As many as use up the threads that requests have."""

PATIENCE_SECONDS = 600.0
"""Of the clients: the test ends the silence, no matter when the machine lets it."""

CLUSTERS = (
    "/api/v1/flows/A/B/translate?topic=orders&partition=0&offset=1",
    "/api/v1/flows/A/B/groups/billing",
    "/api/v1/flows/A/B/topics/orders-00000/partitions?live=true",
)
TABLES = ("/", "/api/v1/flows/A/B/history?figure=lag_seconds", "/flows/A/B")
QUICK = (
    *("/livez", "/readyz", "/metrics", "/static/app.js", "/openapi.json", "/flows/A/B/groups"),
    *("/api/v1/flows", "/api/v1/flows/A/B/topics", "/api/v1/heartbeats", "/clusters"),
    "/api/v1/flows/A/B/topics/orders-00000/partitions",
)


class Silent(Questions):
    """Asks clusters and tables that are silent until the test ends it."""

    __slots__ = ("asked", "over")

    def __init__(self, config: MirrorConfig) -> None:
        super().__init__(config)
        self.over = threading.Event()
        self.asked = threading.Semaphore(0)

    def is_asked(self) -> bool:
        """Whether one more question has come."""
        return self.asked.acquire(blocking=False)

    def _wait(self) -> None:
        self.asked.release()
        self.over.wait()

    def translate(self, flow: FlowConfig, question: Question) -> dict[str, object]:
        self._wait()
        return super().translate(flow, question)

    def group(self, flow: FlowConfig, name: str) -> tuple[list[dict[str, object]], list[str]]:
        self._wait()
        return super().group(flow, name)

    def log_ends(
        self, flow: FlowConfig, topic: str, remote: str, numbers: Sequence[int]
    ) -> tuple[dict[int, int], dict[int, int]]:
        self._wait()
        return super().log_ends(flow, topic, remote, numbers)

    def figures(self, flow: Flow, topic: str | None, since: float) -> Figures:
        self._wait()
        return super().figures(flow, topic, since)

    def acceptance(
        self, flow: FlowConfig, what: tuple[str, int | None], start: StartOffset
    ) -> Acceptance:
        self._wait()
        return super().acceptance(flow, what, start)


@pytest.fixture
def silent(tmp_path: Path) -> Iterator[tuple[Served, Silent]]:
    made: list[Silent] = []

    def asking(config: MirrorConfig) -> Silent:
        made.append(Silent(config))
        return made[0]

    writer, secret = new_token("bob", "write")
    tokens = tmp_path / "tokens"
    tokens.touch(0o600)
    tokens.write_text(writer.line(), encoding="utf-8")
    settings = [f"rest.tokens.file: {tokens}"]
    with serving(tmp_path, lambda flow: FlowSnapshot(flow, observed()), settings, asking) as served:
        try:
            headers = {"Authorization": f"Bearer {secret}"}
            yield replace(served, headers=headers, patience=PATIENCE_SECONDS), made[0]
        finally:
            made[0].over.set()


@pytest.mark.parametrize("paths", [CLUSTERS, TABLES], ids=["clusters", "tables"])
def test_what_is_answered_from_memory_waits_for_no_question(
    silent: tuple[Served, Silent], paths: Sequence[str]
) -> None:
    served, questions = silent
    with ThreadPoolExecutor(ASKED) as pool:
        asked = [pool.submit(served.ask, path) for path in islice(cycle(paths), ASKED)]
        try:
            for _ in range(AT_ONCE):
                wait_until(questions.is_asked, 60)
            refused = ASKED - AT_ONCE - WAITING
            wait_until(lambda: sum(future.done() for future in asked) == refused, 60)
            quick = {path: served.ask(path).status for path in QUICK}
            early = [future.result() for future in asked if future.done()]
        finally:
            questions.over.set()  # or the pool waits for what nobody answers
        statuses = [future.result().status for future in asked]

    assert quick == dict.fromkeys(QUICK, 200)
    assert len(early) == refused
    assert {reply.status for reply in early} == {503}
    assert statuses.count(503) >= refused


def test_a_form_that_asks_clusters_holds_up_nobody(silent: tuple[Served, Silent]) -> None:
    served, questions = silent
    page = served.ask("/login").text
    token = page.partition('name="form_token" value="')[2].partition('"')[0]
    form = f"form_token={token}&topic=orders&from=earliest"
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(served.ask, "/flows/A/B/accept", "POST", form, headers)
        try:
            wait_until(questions.is_asked, 60)
            status = served.ask("/livez").status
            is_early = not asked.done()
        finally:
            questions.over.set()
        asked.result()

    assert (status, is_early) == (200, True)
