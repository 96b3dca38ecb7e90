"""The demo that is kept running prints the address of a page, which answers."""

from pathlib import Path

import pytest

from replication.demo.play import FLOW, kafka_jars
from tests.support.kept_demo import kept_demo
from tests.support.serving import Served
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.job]

SHOWN_SECONDS = 60.0


@pytest.mark.skipif(not list(kafka_jars().glob("*.jar")), reason="needs the jars of the demo")
def test_the_page_of_a_kept_demo_shows_its_flow(tmp_path: Path) -> None:
    with kept_demo(tmp_path, seconds=1) as demo:
        page = demo.page()
        served = Served(page.rstrip("/"))
        assert served.ask("/").status == 200
        demo.printed(r"^To stop: press (Ctrl-C) here")
        assert demo.printed(r"^The mirror's page: (http://\S+)$") == page
        at = f"/api/v1/flows/{FLOW.source}/{FLOW.target}"
        wait_until(lambda: served.ask(at).json["state"] == "running", SHOWN_SECONDS)
        assert demo.process.end() == 0
        wait_until(lambda: is_gone(served), SHOWN_SECONDS)  # it has seen the mirror end


def is_gone(served: Served) -> bool:
    """Whether nobody listens any more."""
    try:
        served.ask("/")
    except ConnectionError:
        return True
    return False
