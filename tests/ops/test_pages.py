"""Pages in a browser: they show what REST says, with and without scripts, for everybody."""

import re
import shutil
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, ConsoleMessage, Page, sync_playwright

from replication.config.tree import FlowConfig
from replication.figures.minutes import CountedMinutes
from replication.figures.observation import Code, Condition, Observation
from replication.serve.answers import freshness_answer
from replication.serve.formats import counted, number, span
from replication.serve.questions import Questions
from replication.serve.security import COOKIE
from replication.serve.sentences import SIGNS
from replication.serve.snapshots import FlowSnapshot
from replication.serve.tokens import new_token
from tests.support.path_prefix import prefixing
from tests.support.serving import AB, EVIL, GROUPS, Served, observed, serving
from tests.support.waiting import in_time, wait_until

CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="needs Debian's chromium: apt-get install chromium"
)
PATHS = (
    "/",
    "/api",
    "/clusters",
    "/configuration",
    "/events",
    "/flows/A/B",
    "/flows/A/B/conditions",
    "/flows/A/B/groups",
    "/flows/A/B/groups/billing",
    "/flows/A/B/topics/orders-00001",
)
RENEWALS, RENEWED_MS = 100, 5000
MOST_LEFT = 1 << 20


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    quiet = ("background-networking", "component-update", "sync", "gpu", "quic")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(
            executable_path=CHROMIUM,
            args=["--no-sandbox", "--no-first-run", *(f"--disable-{name}" for name in quiet)],
        )
        yield started
        started.close()


class Known(Questions):
    """Knows each group without a cluster: an exact partition, and one without an answer."""

    def freshness(self, flow: FlowConfig) -> dict[str, Any]:
        return freshness_answer(flow.flow, 30.0, CountedMinutes(10_000, late=5, paused=7))

    def group(self, flow: FlowConfig, name: str) -> tuple[list[dict[str, object]], list[str]]:
        exact = {"offset": 60, "quality": "exact", "reread": 0, "text": "exact"}
        none = {"offset": None, "quality": "none", "reread": 0, "text": "nothing replicated"}
        rows = [
            {
                "group": name,
                "topic": "orders",
                "remote_topic": f"{flow.flow.source}.orders",
                "partition": partition,
                "source": {"committed": 60, "lag": 40},
                "translated": answer,
                "target": {"committed": None, "state": None},
                "sync": {"code": "off", "text": "sync.group.offsets.enabled is false"},
            }
            for partition, answer in enumerate([exact, none])
        ]
        return rows, [f"the map may be older: {EVIL}"]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    look = observed()
    folder = tmp_path_factory.mktemp("serve")
    with serving(folder, lambda flow: FlowSnapshot(flow, look, standbys=1), asking=Known) as found:
        yield found


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page that fails the test for an error of its console, or a request to another host."""
    context = browser.new_context()
    found = context.new_page()
    problems: list[str] = []
    hosts: set[str] = set()

    def note(message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            problems.append(message.text)

    found.on("console", note)
    found.on("pageerror", lambda error: problems.append(str(error)))
    found.on("request", lambda request: hosts.add(request.url.split("/")[2]))
    yield found
    context.close()
    assert problems == []
    assert len(hosts) <= 1


def test_a_page_shows_what_rest_says(page: Page, served: Served) -> None:
    page.goto(f"{served.url}/flows/A/B")
    topics = served.ask("/api/v1/flows/A/B/topics").json["items"]
    rows = page.locator("tr[data-topic]")
    assert rows.count() == len(topics)
    for place, topic in enumerate(topics):
        row = rows.nth(place)
        assert row.get_attribute("data-topic") == topic["topic"]
        for figure in ("lag_seconds", "lag_records", "records_total"):
            cell = row.locator(f'[data-figure="{figure}"]').inner_text()
            written = span if figure == "lag_seconds" else number
            assert cell == written(topic["figures"][figure])
    flow = served.ask("/api/v1/flows/A/B").json["figures"]
    shown = page.locator('dd[data-figure="lag_records"]').inner_text()
    assert shown == counted(flow["lag_records"], "record")
    assert page.locator('dd[data-figure="lag_seconds"]').inner_text() == span(flow["lag_seconds"])
    assert page.title().startswith(SIGNS["bad"])
    assert page.locator(".sentence").inner_text().endswith("running, bad: set aside (audit)")
    assert served.ask("/api/v1/flows/A/B").json["standbys"] == 1
    assert "+ 1 standby" in served.ask("/").text
    fresh = served.ask("/api/v1/flows/A/B/freshness").json
    assert page.locator('[data-figure="left_minutes"]').inner_text() == str(fresh["left_minutes"])
    assert page.locator('[data-figure="paused_minutes"]').inner_text() == "7"
    assert page.locator(".conditions").inner_text().count(EVIL) == 1
    page.goto(served.url)
    assert page.title().startswith(SIGNS["bad"])
    page.locator("svg.map a").click()
    page.wait_for_url("**/flows/A/B")


@pytest.mark.parametrize("scheme", ["dark", "light"])
@pytest.mark.parametrize("path", PATHS)
def test_everybody_can_read_a_page(
    page: Page, served: Served, path: str, scheme: Literal["dark", "light"]
) -> None:
    page.emulate_media(color_scheme=scheme)
    page.goto(f"{served.url}{path}")
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()


@pytest.mark.parametrize("path", PATHS)
def test_a_page_fits_a_telephone(page: Page, served: Served, path: str) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"{served.url}{path}")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_a_page_needs_no_script(browser: Browser, served: Served) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(served.url)
    page.get_by_role("link", name="A→B", exact=True).first.click()
    page.get_by_label("name").fill("00002")
    page.get_by_role("button", name="filter").click()
    assert page.locator("tr[data-topic]").count() == 1
    page.get_by_role("link", name="orders-00002").click()
    assert page.locator("tr[data-partition]").count() == 2
    context.close()


def test_a_group_is_reached_whatever_its_name(page: Page, served: Served) -> None:
    for name in GROUPS:
        page.goto(f"{served.url}/flows/A/B/groups")
        page.get_by_role("link", name=name, exact=True).click()
        assert page.locator("h1").inner_text() == name
        assert "at the next record in 1 of 2 partitions" in page.locator(".summary").inner_text()
        assert EVIL in page.locator("p.bad").inner_text()
    found = served.ask("/api/v1/flows/A/B/groups/?name=..").json
    assert {row["group"] for row in found["items"]} == {".."}


def test_keys_lead_everywhere(page: Page, served: Served) -> None:
    page.goto(f"{served.url}/flows/A/B")
    page.keyboard.press("/")
    page.keyboard.type("00001")
    page.keyboard.press("Enter")
    page.wait_for_url("**q=00001**")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url("**/topics/orders-00001")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"


def test_a_page_renews_itself_and_says_when_it_cannot(browser: Browser, tmp_path: Path) -> None:
    begin = time.time()

    def look(_: object) -> FlowSnapshot:
        lag = {"lag_seconds": round(time.time() - begin, 1)}
        return FlowSnapshot(AB, replace(observed(), figures=lag))

    page = browser.new_context().new_page()
    with serving(tmp_path, look) as served:
        page.goto(f"{served.url}/flows/A/B")
        page.locator("summary").first.click()
        cell = page.locator('dd[data-figure="lag_seconds"]')
        first = cell.inner_text()
        page.keyboard.press("r")
        shown = "document.querySelector('dd[data-figure=\"lag_seconds\"]').innerText"
        page.wait_for_function(f"first => {shown} !== first", arg=first)
        assert page.locator("details[open]").count() == 1
    page.keyboard.press("r")
    page.wait_for_selector("#late")
    page.context.close()


def test_what_is_wrong_has_a_command_and_what_is_not_known_is_said(
    page: Page, tmp_path: Path
) -> None:
    topic = "orders-00001"
    aside = Condition("set-aside", "bad", time.time(), "why", "accept it", topic)
    look = replace(observed(), conditions=(aside,))
    seen = FlowSnapshot(AB, look)
    with serving(tmp_path, lambda _: seen) as served:
        page.goto(f"{served.url}/flows/A/B/topics/{topic}")
        assert page.locator(".conditions .step").inner_text() == "accept it"
        seen = FlowSnapshot(AB, look, is_silent=True, text="no word")
        for path in ("/", "/flows/A/B"):
            page.goto(f"{served.url}{path}")
            assert page.locator(".step").all_inner_texts() == [
                "python -m replication doctor FILE",
                "accept it",
            ]
            assert page.get_by_text(re.compile("^As of .* ago:$")).count() == 1
        seen = FlowSnapshot(AB, text="nothing was heard")
        page.goto(f"{served.url}/flows/A/B")
        assert page.locator(".large dd").all_inner_texts() == ["unknown"] * 3
        assert "not known" in page.locator(".summary").inner_text()


def test_a_page_that_stays_open_for_a_day_keeps_nothing(browser: Browser, tmp_path: Path) -> None:
    """It renews itself 17 000 times; what a renewal leaves would be seen after a hundred."""
    look = observed(100)
    context = browser.new_context()
    page = context.new_page()
    page.clock.install()
    devtools = context.new_cdp_session(page)
    devtools.send("Performance.enable")

    def kept(renewals: int) -> dict[str, float]:
        for _ in range(renewals):
            with page.expect_response("**/flows/A/B"):
                page.clock.run_for(RENEWED_MS)
            wait_until(lambda: not page.evaluate("isAsking"), 10)
        devtools.send("HeapProfiler.collectGarbage")
        found = devtools.send("Performance.getMetrics")["metrics"]
        return {one["name"]: one["value"] for one in found}

    with serving(tmp_path, lambda flow: FlowSnapshot(flow, look)) as served:
        page.goto(f"{served.url}/flows/A/B")
        first, last = kept(RENEWALS // 10), kept(RENEWALS)
    for name in ("Nodes", "Documents", "JSEventListeners"):
        assert last[name] <= first[name] * 1.1, name
    assert last["JSHeapUsedSize"] <= first["JSHeapUsedSize"] + MOST_LEFT
    context.close()


def test_five_thousand_topics_with_three_conditions_are_a_page_of_a_hundred(
    browser: Browser, tmp_path: Path
) -> None:
    codes: tuple[Code, ...] = ("set-aside", "stalled", "retention-near")
    long = "t" * 249
    look: Observation = observed(5000)
    worn = [
        Condition(code, "bad", time.time(), "why\n" * 25_000 if topic == long else "why", "", topic)
        for code in codes
        for topic in (long, *(each.topic for each in look.topics))
    ]
    look = replace(look, conditions=tuple(worn))
    page = browser.new_context().new_page()
    with serving(tmp_path, lambda flow: FlowSnapshot(flow, look)) as served:
        page.goto(f"{served.url}/flows/A/B")
        assert page.locator("tr[data-topic]").count() == 100
        assert len(page.content()) < 200_000
        assert page.locator(".conditions li").count() == len(codes)
        page.get_by_role("link", name=re.compile("of this kind")).first.click()
        assert page.locator("tbody tr").count() == 100
        assert len(page.content()) < 200_000
        page.set_viewport_size({"width": 390, "height": 844})
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        page.goto(f"{served.url}/flows/A/B")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        page.get_by_role("link", name="next page").click()
        assert page.locator("tr[data-topic]").count() == 100
    page.context.close()


def test_five_thousand_partitions_are_a_page_of_a_hundred_within_a_second(
    browser: Browser, tmp_path: Path
) -> None:
    look = observed(1, partitions=5000)
    page = browser.new_context().new_page()
    with serving(tmp_path, lambda flow: FlowSnapshot(flow, look)) as served:
        page.goto(f"{served.url}/")  # a browser's first page takes longer
        with in_time(1, "a page of 5000 partitions"):
            page.goto(f"{served.url}/flows/A/B/topics/orders-00000")
        assert page.locator("tr[data-partition]").count() == 100
        assert len(page.content()) < 200_000
    page.context.close()


def test_whoever_may_write_changes_a_flow_on_its_page(page: Page, tmp_path: Path) -> None:
    made, secret = new_token("bob", "write")
    tokens = tmp_path / "tokens"
    tokens.touch(0o600)
    tokens.write_text(made.line(), encoding="utf-8")
    silent = [f"{alias}.default.api.timeout.ms: 2000" for alias in "AB"]
    settings = [f"rest.tokens.file: {tokens}", *silent]
    page.set_viewport_size({"width": 390, "height": 844})
    with serving(tmp_path, lambda flow: FlowSnapshot(flow, observed()), settings) as served:
        page.context.add_cookies([{"name": COOKIE, "value": secret, "url": served.url}])
        page.goto(f"{served.url}/flows/A/B")
        page.get_by_role("combobox", name="change").select_option("limit")
        page.get_by_label("items").fill("bytes=5MB")
        page.get_by_label("topics of a limit").fill(f"{'clicks' * 30}|x")
        page.get_by_label("reason").first.fill(EVIL)
        page.get_by_role("button", name="show what it would do").click()
        page.get_by_text("Nothing has been changed yet").wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        page.get_by_role("button", name="limit now").click()
        page.get_by_text("It was requested").wait_for()
        page.get_by_role("link", name="A→B").click()
        row = page.locator('tr[data-change="1"]')
        assert EVIL in row.inner_text()
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        assert Axe().run(page).violations_count == 0
        row.get_by_role("button", name="undo").click()
        page.get_by_role("button", name="undo now").click()
        page.get_by_text("It was requested").wait_for()
        page.goto(f"{served.url}/flows/A/B")
        assert "undone" in row.inner_text()
        page.goto(f"{served.url}/flows/A/B/topics/orders-00001")
        assert page.get_by_role("button", name="copied again").count() == 1
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        assert Axe().run(page).violations_count == 0


def test_a_proxy_may_put_something_before_all_paths(page: Page, tmp_path: Path) -> None:
    look = observed()
    settings = ["rest.path.prefix: /mirror"]
    with (
        serving(tmp_path, lambda flow: FlowSnapshot(flow, look), settings) as served,
        prefixing(served.host, "/mirror") as outside,
    ):
        page.goto(f"{outside}/mirror/")
        page.get_by_role("link", name="A→B", exact=True).first.click()
        page.get_by_role("link", name="orders-00002").click()
        page.wait_for_url(f"{outside}/mirror/flows/A/B/topics/orders-00002", wait_until="load")
        assert page.evaluate("getComputedStyle(document.querySelector('header')).display") == "flex"
