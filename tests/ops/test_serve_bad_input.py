"""`serve` as a process beside real clusters: odd names in every view, no state.dir, a long day."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from html import unescape
from pathlib import Path
from urllib.parse import quote

import pytest
from confluent_kafka import Producer
from prometheus_client.parser import text_string_to_metric_families

from replication.config.file import load_config
from replication.demo.workload import create_topic
from replication.figures.observation import GroupFigures, TopicFigures
from replication.figures.status_store import Holder, part_statuses
from replication.flows.publisher import FlowPublisher
from replication.model import Flow
from replication.state.claim import LeaseName
from tests.support.cli import ok, run
from tests.support.flows import unique_flow
from tests.support.lease_member import MEMBER, lease_member
from tests.support.local import Clusters
from tests.support.mirror_files import write_config
from tests.support.process_tree import own_memory
from tests.support.running_process import RunningProcess
from tests.support.serve_process import serve_process
from tests.support.serving import Reply, Served, observed
from tests.support.waiting import wait_until
from tests.support.watched import commit

pytestmark = pytest.mark.cluster

LONG = "t" * 249
"""As long as Kafka allows. Its copy would be longer, so it is set aside."""

ODD = ("a/b", "with space", "grün-日本", "%2F?#&=", "'quoted\" <b>", "//", "a/b/c?x=1")
START_SECONDS = 60.0
TOPICS = 20
WARM_REQUESTS, REQUESTS = 500, 2000
MOST_GROWTH = 24 << 20


@pytest.fixture
def flow() -> Flow:
    """A flow that no other test has."""
    return unique_flow()


@pytest.fixture
def file(clusters: Clusters, tmp_path: Path, topic_name: str, flow: Flow) -> Iterator[Path]:
    """A file of that flow, whose owner has just said how it is."""
    more = {"rest.port": 0, "status.publish.interval.seconds": 600}  # so that the word stays fresh
    file = write_config(tmp_path, clusters, topic_name, more, flow)
    figures = {"lag_records": 3.0, "lag_seconds": 1.5, "records_total": 7.0}
    many = observed(TOPICS - 1)
    look = replace(
        many,
        flow=flow,
        topics=(
            *many.topics,
            TopicFigures(LONG, None, "set-aside", "its name is too long", figures),
        ),
        groups=tuple(GroupFigures(name, {"group_lag_records": 5.0}, {"exact": 1}) for name in ODD),
    )
    publisher = FlowPublisher(load_config(str(file)).flows[0])
    publisher.publish(look, {"records": Holder(1, MEMBER, "host/A->B/1")})
    publisher.close()
    with lease_member(clusters[1], flow):
        yield file


@contextmanager
def serving(file: Path) -> Iterator[tuple[Served, RunningProcess]]:
    """`serve` of *file*, once it has heard of the flow."""
    with serve_process(file, file.with_name("serve.log")) as (served, process):
        wait_until(
            process.while_running(lambda: served.ask("/readyz").status == 200), START_SECONDS
        )
        yield served, process


def answered(served: Served, path: str) -> Reply:
    """The answer of a path that asks the clusters, which may be too busy at first."""
    replies: list[Reply] = []

    def ask() -> bool:
        replies.append(served.ask(path))
        return replies[-1].status == 200

    wait_until(ask, START_SECONDS)
    return replies[-1]


def test_odd_names_are_themselves_in_every_view(
    clusters: Clusters, file: Path, flow: Flow, topic_name: str
) -> None:
    create_topic(clusters[0].bootstrap, topic_name, 1)
    for group in ODD:
        commit(clusters[0], group, topic_name, 0)
    at = f"/flows/{flow.source}/{flow.target}"
    with serving(file) as (served, _):
        wait_until(lambda: served.ask(f"/api/v1{at}").json["state"] == "running", START_SECONDS)

        listed = served.ask(f"/api/v1{at}/groups").json["items"]
        assert {item["group"] for item in listed} == set(ODD)
        page = unescape(served.ask(f"{at}/groups").text)
        for group in ODD:
            path = f"{at}/groups/{quote(group, safe='')}"
            assert path in page
            answered(served, path)
            (item,) = answered(served, f"/api/v1{path}").json["items"]
            assert item["group"] == group
        families = text_string_to_metric_families(served.ask("/metrics").text)
        samples = [sample for family in families for sample in family.samples]
        assert {
            one.labels["group"] for one in samples if one.name.endswith("group_lag_records")
        } == {*ODD}
        assert {one.labels["topic"] for one in samples if one.name.endswith("set_aside")} == {LONG}
        assert served.ask(f"/api/v1{at}/topics/{LONG}").json["reason"] == "its name is too long"
        assert LONG in served.ask(f"{at}/topics/{LONG}").text
    shown = json.loads(ok(run("lag", file, "--json", "--topic", LONG)).stdout)
    assert LONG in json.dumps(shown)
    status = json.loads(ok(run("status", file, "--json")).stdout)
    assert all(group in json.dumps(status, ensure_ascii=False) for group in ("a/b", "grün-日本"))


def forge(clusters: Clusters, flow: Flow, **others: object) -> None:
    """Says, as a stranger with an epoch that no owner reaches, that all is lost."""
    failed = replace(observed(0), flow=flow, state="failed", text="all is lost")
    words = part_statuses(failed, {"records": Holder(2**40, "stranger", "x", since=1e11)}, 5)
    producer = Producer({"bootstrap.servers": clusters[1].bootstrap})
    for key, value in words.items():
        word = json.loads(value or b'{"replication": {}}')
        word["replication"] |= others
        topic = f"mm2-status.{flow.source}.internal"
        producer.produce(topic, json.dumps(word).encode(), key.encode())
    producer.flush()


def test_forged_words_do_not_deafen_serve(clusters: Clusters, file: Path, flow: Flow) -> None:
    at = f"/api/v1/flows/{flow.source}/{flow.target}"
    config = load_config(str(file)).flows[0]
    publisher = FlowPublisher(config)
    with serving(file) as (served, process):
        wait_until(lambda: served.ask(at).json["state"] == "running", START_SECONDS)
        forge(clusters, flow, interval=1_000_000_000)
        forge(clusters, flow)
        wait_until(
            process.while_running(
                lambda: "status_word_left" in file.with_name("serve.log").read_text()
            ),
            START_SECONDS,
        )
        wait_until(lambda: served.ask(at).json["state"] == "running", START_SECONDS)
        paused = replace(observed(0), flow=flow, state="paused")
        publisher.publish(paused, {"records": Holder(1, MEMBER, "host/A->B/1")})
        wait_until(lambda: served.ask(at).json["state"] == "paused", START_SECONDS)
    publisher.close()


def test_status_and_stop_answer_rightly_beside_forged_words(
    clusters: Clusters, file: Path, flow: Flow
) -> None:
    forge(clusters, flow, interval=1_000_000_000)
    forge(clusters, flow, member=["stranger"])
    forge(clusters, flow, v="9")
    forge(clusters, flow)

    (shown,) = json.loads(ok(run("status", file, "--json")).stdout)["flows"]
    stopped = run("stop", file)

    assert (shown["state"], shown["lease_group"]["members"]) == ("running", [MEMBER])
    assert "all is lost" not in ok(run("status", file)).stdout
    assert stopped.exit_code == 8, stopped.output
    assert f"{LeaseName(flow).group} on {flow.target} has a member" in stopped.stderr


def test_without_a_state_dir_of_its_own_it_shows_what_the_owner_says(
    file: Path, flow: Flow
) -> None:
    """The tables may be on another host: history is what `serve` has seen itself."""
    lines = file.read_text().splitlines()
    file.write_text("\n".join(line for line in lines if not line.startswith("state.dir")))
    at = f"/api/v1/flows/{flow.source}/{flow.target}"
    with serving(file) as (served, _):
        wait_until(lambda: served.ask(at).json["state"] == "running", START_SECONDS)
        assert served.ask(f"{at}/topics").json["total"] == TOPICS
        points = served.ask(f"{at}/history?figure=lag_seconds").json
        assert points
        for path in ("/", f"/flows/{flow.source}/{flow.target}", "/events", "/api/v1/events"):
            assert served.ask(path).status == 200, path


def test_pages_that_stay_open_cost_no_memory(file: Path, flow: Flow) -> None:
    """A page that renews itself each five seconds asks 17 000 times a day."""
    at = f"/flows/{flow.source}/{flow.target}"
    paths = ("/", at, f"{at}/groups", f"/api/v1{at}/topics", "/metrics", "/api/v1/flows")
    with serving(file) as (served, process):
        wait_until(lambda: served.ask(f"/api/v1{at}").json["state"] == "running", START_SECONDS)

        def ask(count: int) -> int:
            for number in range(count):
                assert served.ask(paths[number % len(paths)]).status == 200
            return own_memory(process.pid)

        warm = ask(WARM_REQUESTS)
        assert ask(REQUESTS) - warm < MOST_GROWTH
