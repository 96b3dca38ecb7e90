"""Takes the picture of the page that README.md shows, of the demo while it runs.

``python -m tests.support.screenshot FILE``; it needs Debian's chromium.
"""

import shutil
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import sync_playwright

from replication.demo.play import FLOW
from tests.support.kept_demo import kept_demo

PRODUCING_SECONDS = 150
LOOK_SECONDS = 100.0
"""How long the flow runs before the picture is taken, so that its lines are lines."""


def take(address: str, file: Path) -> None:
    """Writes the page of the demo's flow at *address* as a PNG."""
    with sync_playwright() as playwright:
        options = ["--no-sandbox", "--disable-dev-shm-usage"]
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=options)
        page = browser.new_page(viewport={"width": 1100, "height": 1000}, color_scheme="light")
        page.goto(f"{address}flows/{FLOW.source}/{FLOW.target}?range=15m")
        page.screenshot(path=str(file))
        browser.close()


def main(file: str) -> None:
    """Plays the demo, and takes the picture while records are produced."""
    with (
        tempfile.TemporaryDirectory() as folder,
        kept_demo(Path(folder), PRODUCING_SECONDS) as demo,
    ):
        address = demo.page()
        demo.printed(r"^(Starting Spark and copying .*: done)")
        time.sleep(LOOK_SECONDS)
        take(address, Path(file))
        demo.process.end()


if __name__ == "__main__":
    main(*sys.argv[1:])
