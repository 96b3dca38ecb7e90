"""REST: its description, its lists, its errors, and that it shows what was published."""

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import pytest
from openapi_spec_validator import validate

from replication.figures.observation import Observation, document
from replication.figures.registry import FIGURES, names_at
from replication.serve.snapshots import FlowSnapshot
from tests.support.serving import AB, GROUPS, Served, observed, serving

TOPICS = 5000
LOOK = observed(TOPICS)
AT = "/api/v1/flows/A/B"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("serve")
    with serving(folder, lambda flow: FlowSnapshot(flow, LOOK)) as found:
        yield found


def test_the_description_is_openapi_3_1(served: Served) -> None:
    found = served.ask("/openapi.json").json
    assert found["openapi"].startswith("3.1")
    validate(found)


def test_each_figure_of_a_flow_is_described_and_answered(served: Served) -> None:
    described = served.ask("/openapi.json").json["components"]["schemas"]["FlowDocument"]
    names = set(names_at("flow")) | {f.name for f in FIGURES if f.kind == "histogram"}
    assert set(described["properties"]["figures"]["properties"]) == names
    assert set(served.ask(AT).json["figures"]) == names


def test_a_flow_is_answered_as_it_was_published(served: Served) -> None:
    found, published = served.ask(AT).json, document(LOOK)
    assert {**published, **found} | {"topics": 0, "groups": 0, "events": 0, "text": ""} == {
        **published,
        "last_state": "running",
        "standbys": None,
        "topics": 0,
        "groups": 0,
        "events": 0,
        "text": "",
    }


def test_all_pages_together_are_the_whole_list(served: Served) -> None:
    names, cursor, pages = [], "", 0
    while True:
        path = f"{AT}/topics?limit=999&sort=-lag_seconds&cursor={cursor}"
        page = served.ask(path).json
        names += [item["topic"] for item in page["items"]]
        pages += 1
        if not (cursor := page["next"]):
            break
    by_lag = sorted(LOOK.topics, key=lambda topic: (-topic.figures["lag_seconds"], topic.topic))
    assert names == [topic.topic for topic in by_lag]
    assert (pages, page["total"]) == (6, TOPICS)


def test_a_filter_counts_what_it_leaves(served: Served) -> None:
    found = served.ask(f"{AT}/topics?q=ORDERS-0012&state=lagging").json
    assert [item["topic"] for item in found["items"]][:2] == ["orders-00125", "orders-00124"]
    assert found["total"] == len(found["items"]) == 9


def test_groups_of_any_name_are_listed(served: Served) -> None:
    found = served.ask(f"{AT}/groups?sort=group").json
    assert {item["group"] for item in found["items"]} == set(GROUPS)


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        (f"{AT}/topics?cursor=zzz", 404, "no-page"),
        (f"{AT}/topics?limit=0", 422, "invalid"),
        (f"{AT}/topics?sort=colour", 422, "no-page"),
        (f"{AT}/topics/nothing", 404, "no-topic"),
        (f"{AT}/history?figure=colour", 422, "no-figure"),
        (f"{AT}/history?figure=lag_seconds&from=noon", 422, "invalid"),
        ("/api/v1/flows/A/C", 404, "no-flow"),
        ("/api/v1/nothing", 404, "http"),
    ],
)
def test_errors_are_problem_documents(served: Served, path: str, status: int, code: str) -> None:
    found = served.ask(path)
    assert found.headers["content-type"] == "application/problem+json"
    assert (found.status, found.json["code"], found.json["status"]) == (status, code, status)


def test_an_answer_that_is_known_is_not_sent_again(served: Served) -> None:
    tag = served.ask(AT).headers["etag"]
    again = served.ask(AT, headers={"If-None-Match": tag})
    assert (again.status, again.text) == (304, "")


def test_a_flow_of_which_nothing_was_heard_is_unknown_not_healthy(tmp_path: Path) -> None:
    with serving(
        tmp_path, lambda flow: FlowSnapshot(flow, None, text="the topic is empty")
    ) as served:
        found = served.ask(AT).json
        topics = served.ask(f"{AT}/topics").json
    assert (found["state"], found["health"], found["stale"]) == ("unknown", None, True)
    assert found["text"] == "the topic is empty"
    assert set(found["figures"].values()) == {None}
    assert (topics["items"], topics["stale"], topics["as_of"]) == ([], True, None)


def test_a_silent_flow_keeps_its_last_word(tmp_path: Path) -> None:
    seen = FlowSnapshot(AB, observed(), is_silent=True, text="nothing was heard for 93 s")
    with serving(tmp_path, lambda _: seen) as served:
        found = served.ask(AT).json
    assert (found["state"], found["last_state"], found["stale"]) == ("silent", "running", True)


def test_what_is_remembered_has_steps(tmp_path: Path) -> None:
    looks = iter(range(1000))

    def look(_: object) -> FlowSnapshot:
        number = next(looks)
        return FlowSnapshot(AB, changed(observed(), number))

    with serving(tmp_path, look) as served:
        for _ in range(4):
            served.ask(AT)
        found = served.ask(f"{AT}/history?figure=lag_seconds&step=86400").json
    total = sum(point["sum"] for point in found)
    assert total >= sum(range(4))
    assert found[0]["min"] <= found[0]["avg"] <= found[0]["max"]


def changed(look: Observation, number: int) -> Observation:
    return replace(look, as_of=look.as_of - 900 + number, figures={"lag_seconds": float(number)})


def test_no_request_of_a_machine_finds_an_answer_that_is_not_described(tmp_path: Path) -> None:
    """Schemathesis makes requests of all kinds from the description, and checks the answers."""
    with serving(tmp_path, lambda flow: FlowSnapshot(flow, observed())) as served:
        ran = try_all(served, tmp_path)
    assert ran.returncode == 0, ran.stdout[-6000:] + ran.stderr[-2000:]


def try_all(served: Served, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            *(sys.executable, "-m", "schemathesis.cli", "run", f"{served.url}/openapi.json"),
            *("--checks", "all", "--max-examples", "5", "--seed", "1", "--no-color"),
            *("--exclude-path-regex", "/(groups/|translate|partitions)"),  # these ask clusters
            *("--suppress-health-check", "all", "--request-timeout", "60"),
            *("--max-response-time", "60"),
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,  # where it writes what it has tried
    )


def test_a_name_in_a_path_may_have_slashes(served: Served) -> None:
    page = served.ask("/flows/A/B/groups").text
    assert f'href="/flows/A/B/groups/{quote("a/b", safe="")}"' in page
