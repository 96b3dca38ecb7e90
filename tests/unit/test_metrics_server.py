"""The driver's HTTP server: pages, names, limits, and a port that somebody else has."""

import http.client
import json
import logging
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress

import pytest

from replication.app import http_server as pulses
from replication.app.http_server import (
    MOST_CONNECTIONS,
    RETRY_SECONDS,
    HttpServer,
    Liveness,
    Reply,
    served,
)
from replication.config.metrics_settings import MetricsConfig
from replication.demo.brokers import free_port
from replication.figures.observation import FlowState, Observation, observation
from replication.flows.flow_metrics import FlowMetrics
from replication.model import Flow
from tests.support.observed import A_TO_B, NOW, observed
from tests.support.settings import ONE_FLOW, parse_settings
from tests.support.waiting import wait_until

HOST = "127.0.0.1"


class Clusters:
    """Two clusters that answer, until a test says otherwise."""

    are_answering = True


def get(port: int, path: str, *, by: str = HOST, **headers: str) -> tuple[int, str]:
    """Status and body of a page, as the address *by* is told."""
    own = (by, 0)
    with closing(http.client.HTTPConnection(HOST, port, timeout=10, source_address=own)) as to:
        to.request("GET", path, headers=headers)
        answer = to.getresponse()
        return answer.status, answer.read().decode()


def metrics(port: int, **more: str) -> MetricsConfig:
    """The configuration of a server at *port*."""
    keys = {f"metrics.{name}": value for name, value in more.items()}
    return parse_settings({**ONE_FLOW, "metrics.port": str(port), **keys}).metrics


@contextmanager
def running(
    flows: Sequence[Observation] = (), pulse: Liveness | None = None, **more: str
) -> Iterator[int]:
    """The port of a server that answers."""
    port = free_port()
    with served(metrics(port, **more), ("mirror.example.com",), lambda: flows, pulse or Liveness()):
        wait_for(port)
        yield port


def wait_for(port: int) -> None:
    """Waits until something listens at *port*."""

    def listens() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex((HOST, port)) == 0

    wait_until(listens, 5)


def test_without_a_port_nothing_listens() -> None:
    with served(parse_settings(ONE_FLOW).metrics, (), list, Liveness()):
        assert not [one for one in threading.enumerate() if one.name == "metrics"]


def test_the_pages_say_what_is_observed() -> None:
    with running([observed()]) as port:
        status, text = get(port, "/metrics")
        assert (status, 'lag_seconds{source="A",target="B",topic="payments"} 90.0' in text) == (
            200, True,
        )  # fmt: skip
        status, text = get(port, "/status")
        assert (status, observation(json.loads(text)["flows"][0])) == (200, observed())
        assert get(port, "/livez") == (200, "ok\n")
        assert get(port, "/readyz") == (200, "A->B running\n")
        status, text = get(port, "/")
        assert (status, text) == (404, "here are /livez, /metrics, /readyz, /status\n")
        with closing(http.client.HTTPConnection(HOST, port, timeout=10)) as connection:
            connection.request("POST", "/metrics", body="x")
            assert connection.getresponse().status == 501


@pytest.mark.parametrize(
    ("state", "status"),
    [("running", 200), ("draining", 200), ("standby", 200), ("paused", 200), ("starting", 503),
     ("waiting", 503), ("failed", 503), ("stopped", 503)],
)  # fmt: skip
def test_ready_is_who_runs_stands_by_or_is_paused(state: str, status: int) -> None:
    with running([observed(state=state)]) as port:
        assert get(port, "/readyz")[0] == status


def test_a_flow_that_has_ended_does_not_make_others_unready() -> None:
    with running(
        [observed(), observed(flow=Flow("B", "A"), state="drained", ended_at=NOW)]
    ) as port:
        assert get(port, "/readyz")[0] == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:9404", "10.0.0.7", "[fe80::1]:9"])
def test_another_name_gets_421(host: str) -> None:
    """A page in a browser can lead its own name to this machine."""
    with running([observed()]) as port:
        for path in ("/metrics", "/livez", "/readyz", "/status", "/none"):
            assert get(port, path, Host=host)[0] == 421


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "[::1]:9404", "mirror.example.com:8"])
def test_names_of_this_machine_and_of_the_configuration_are_answered(host: str) -> None:
    with running([observed()]) as port:
        assert get(port, "/livez", Host=host)[0] == 200


def test_a_server_for_others_is_asked_by_address() -> None:
    with running([observed()], listen="0.0.0.0") as port:  # noqa: S104
        assert get(port, "/livez", Host="10.0.0.7:9404")[0] == 200
        assert get(port, "/livez", Host="evil.example")[0] == 421


def test_a_page_that_fails_is_an_answer(caplog: pytest.LogCaptureFixture) -> None:
    def fail(_accept: str) -> Reply:
        raise ValueError("no such figure")

    with served_pages({"/metrics": fail}) as (server, port):
        assert get(port, "/metrics") == (500, "internal error, see the log\n")
        assert server.pages
    assert [record.levelname for record in caplog.records] == ["ERROR"]


@contextmanager
def served_pages(
    pages: dict[str, Callable[[str], Reply]],
) -> Iterator[tuple[HttpServer, int]]:
    """A server of *pages* and its port."""
    with HttpServer(HOST, 0, pages, lambda _host: True) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server, server.server_port
        finally:
            server.shutdown()
            thread.join()


def test_callers_that_say_nothing_do_not_keep_others_out_for_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("replication.app.http_server.REQUEST_SECONDS", 4.0)  # all connect within
    with (
        served_pages({"/livez": lambda _accept: Reply(b"ok\n")}) as (_, port),
        ExitStack() as all_,
    ):
        for _ in range(MOST_CONNECTIONS):
            all_.enter_context(socket.create_connection((HOST, port)))
        assert get(port, "/livez")[0] == 503
        wait_until(lambda: get(port, "/livez")[0] == 200, 10)


def test_a_taken_port_costs_the_view_only_and_is_taken_over(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """As with two processes with one port, the first of which ends."""
    caplog.set_level(logging.INFO)
    port = free_port()
    with ExitStack() as other:
        other.enter_context(served(metrics(port), (), lambda: [observed()], Liveness()))
        wait_for(port)
        second = [observed(state="standby")]
        with served(metrics(port), (), lambda: second, Liveness()):
            wait_until(lambda: "metrics_not_served" in caplog.text, 10)
            assert get(port, "/readyz")[1] == "A->B running\n"
            other.close()

            def is_taken_over() -> bool:
                with suppress(OSError):
                    return get(port, "/readyz")[1] == "A->B standby\n"
                return False

            wait_until(is_taken_over, 2 * RETRY_SECONDS)
    said = [r.getMessage() for r in caplog.records if "metrics_not_served" in r.getMessage()]
    assert len(said) == 1
    assert "Write another metrics.port" in said[0]
    assert f"cannot listen on 127.0.0.1:{port}: Address already in use" in said[0]


@pytest.mark.parametrize(("state", "is_awaited"), [("stopped", True), ("failed", False)])
def test_a_stopped_job_ends_behind_one_more_scrape(state: FlowState, *, is_awaited: bool) -> None:
    """A target that has gone without a word looks as if it were down, to each Prometheus."""
    every, flows = 2.0, [observed()]
    scraped: dict[str, list[str]] = {"127.0.0.2": [], "127.0.0.3": []}
    ended = threading.Event()

    def scrape(host: str) -> None:
        while not ended.wait(every):
            with suppress(OSError):
                scraped[host].append(get(port, "/metrics", by=host)[1])

    with ExitStack() as job:
        port = job.enter_context(running(flows))
        pair = [threading.Thread(target=scrape, args=(host,)) for host in scraped]
        for prometheus in pair:
            prometheus.start()
        wait_until(lambda: all(len(pages) == 2 for pages in scraped.values()), 10)
        flows[:] = [observed(state=state)]
    ended.set()
    for prometheus in pair:
        prometheus.join()

    said = f'state="{state}",target="B"}} 1.0'
    assert [any(said in page for page in pages) for pages in scraped.values()] == [is_awaited] * 2


def test_a_loop_that_does_not_turn_fails_livez(monkeypatch: pytest.MonkeyPatch) -> None:
    flow_metrics, clusters, pulse = FlowMetrics(), Clusters(), Liveness()
    pulse.watch(A_TO_B, flow_metrics, clusters)
    with running([observed()], pulse) as port:
        assert get(port, "/livez")[0] == 200  # nothing turns yet, as while Spark starts
        flow_metrics.turn()
        assert get(port, "/livez")[0] == 200
        monkeypatch.setattr(pulses, "LONGEST_TURN", 0.0)  # any time is too long
        status, text = get(port, "/livez")
        assert (status, text.startswith("the loop of the flow A->B has not turned for")) == (
            503, True,
        )  # fmt: skip
        clusters.are_answering = False  # a new start would wait for them, too
        assert get(port, "/livez")[0] == 200
        clusters.are_answering = True
        flow_metrics.rest()
        assert get(port, "/livez")[0] == 200
        pulse.turn()
        assert get(port, "/livez")[1].startswith("the loop of the process has not turned for")


def test_a_jvm_that_does_not_answer_stops_the_pulse(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulses, "LONGEST_TURN", 0.0)  # any time is too long
    hangs = threading.Event()
    pulse = Liveness(lambda: hangs.wait(120))
    hung = threading.Thread(target=pulse.turn)
    hung.start()
    wait_until(pulse.find_hung, 10)
    hangs.set()
    hung.join()
    monkeypatch.undo()
    assert not pulse.find_hung()
