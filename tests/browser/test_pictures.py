"""The pictures of the dashboard in the docs: made anew on demand, of a shop with two brokers.

FAMULUS_PICTURES=docs/pictures ./famulus test tests/browser/test_pictures.py
"""

from __future__ import annotations

import os
import random
import re
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from tests.browser.conftest import Browser
from tests.browser.test_dashboard import opened
from tests.processes.conftest import wait_until
from tests.processes.networks import Network
from tests.processes.test_herald import address_of, ask

from famulus import Client

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "docs/pictures"
WANTED = os.environ.get("FAMULUS_PICTURES", "")
SHOP_WORKER = str(Path(__file__).parent / "shop_worker.py")
BYTES_MAX = 100_000
#: So that the charts have something to show.
LOAD_S = 75.0
WIDE, LOW, NARROW = (1280, 860), (1280, 620), (390, 800)
LIGHT, DARK = (("prefers-color-scheme", scheme) for scheme in ("light", "dark"))
WORKERS = (
    ("vienna", "till-1", "4", "pay", "invoice"),
    ("vienna", "till-2", "4", "pay", "invoice"),
    ("vienna", "studio-1", "6", "thumbnail", "export"),
    ("linz", "studio-2", "6", "thumbnail", "translate"),
)
#: (from the clients of which broker, service, tasks per second, shortest and longest time in ms, how many fail)
LOADS = (
    ("vienna", "pay", 24, 4, 30, 0.02),
    ("vienna", "invoice", 6, 20, 60, 0.0),
    ("vienna", "thumbnail", 40, 20, 120, 0.0),
    ("vienna", "translate", 5, 60, 200, 0.0),
    ("vienna", "archive", 0.2, 5, 5, 0.0),
    ("linz", "thumbnail", 8, 20, 120, 0.0),
)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    """Two brokers of which one has a journal, workers at both, and a minute of load."""
    folder = tmp_path_factory.mktemp("shop")
    config = folder / "broker.toml"
    config.write_text("journal_roll_s = 1\n")
    network = Network(folder)
    try:
        flags = ("--http-port", "0", "--config", str(config), "--journal-folder", str(folder / "journal"))
        network.found("vienna", *flags)
        network.join("linz", at="vienna")
        network.wait_until_in_step(20)
        for broker, *words in WORKERS:
            network.run(broker, SHOP_WORKER, network[broker].backend, *words)
        with busy(network), Client(network["vienna"].frontend) as client:
            address = address_of(network["vienna"].broker)
            time.sleep(LOAD_S)
            for pages in (400, 90):
                client.submit("export", b"%d" % pages, timeout=600, message_id=f"export-{pages}")
            wait_until(lambda: ask(address, "/api/v1/status")[1]["tasks"]["error"] > 3, 30, "some failures")
            yield network
    finally:
        network.close()


@contextmanager
def busy(network: Network) -> Iterator[None]:
    stop = threading.Event()
    chance = random.Random(7)

    def ask_on(broker: str, service: str, per_s: float, shortest: int, longest: int, fails: float) -> None:
        number = 4000
        with Client(network[broker].frontend, retry=None) as client:
            while not stop.wait(chance.expovariate(per_s)):
                number += 1
                word = "no" if chance.random() < fails else "do"
                body = f"{word} {'x' * chance.randrange(200, 9000)} {chance.randint(shortest, longest)}"
                client.submit(service, body, message_id=f"{service}-{number}", timeout=2)

    with ExitStack() as closing:
        for load in LOADS:
            thread = threading.Thread(target=ask_on, args=load)
            thread.start()
            closing.callback(thread.join)
        closing.callback(stop.set)
        yield


@pytest.mark.skipif(not WANTED, reason="only when they are wanted: FAMULUS_PICTURES=docs/pictures")
@pytest.mark.timeout(600)
def test_pictures_are_made(browser: Browser, shop: Network) -> None:
    address = address_of(shop["vienna"].broker)
    browser.hide_scrollbars()
    told = ask(address, "/api/v1/tasks?outcome=failed&from=memory")[1]["tasks"]
    failed = next(task for task in told if task["service"] == "pay")
    for name, page, size, scheme, sign in (
        ("overview", "", WIDE, LIGHT, ".links .moving"),
        ("overview-dark", "", WIDE, DARK, ".links .moving"),
        ("overview-narrow", "", NARROW, LIGHT, ".figure"),
        ("tasks", "tasks", WIDE, LIGHT, "tbody tr"),
        ("life-of-a-task", f"tasks/{failed['message_id']}", WIDE, LIGHT, ".step"),
        ("running-task", "tasks/export-90", LOW, LIGHT, ".step"),
        ("errors", "errors", LOW, LIGHT, "tbody tr"),
    ):
        opened(browser, address, page)
        browser.look(*size, scheme, ("prefers-reduced-motion", "reduce"))
        browser.wait_for(f"innerWidth === {size[0]} && !!document.querySelector('{sign}')")
        if name == "life-of-a-task":
            browser.wait_for(
                "document.querySelector('main').innerText.includes('As the journal of this broker has it')"
            )
        browser.picture((ROOT / WANTED) / f"{name}.webp")
    assert browser.complaints == []


def test_every_picture_is_small_and_on_a_page() -> None:
    shown = {
        (page.parent / link).resolve()
        for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
        for link in re.findall(r"!\[[^\]]+\]\(([^)\s]+)\)", page.read_text("utf-8"))
    }
    there = {path.resolve() for path in PICTURES.iterdir()}
    assert there == shown
    assert [path.name for path in there if path.stat().st_size > BYTES_MAX] == []
