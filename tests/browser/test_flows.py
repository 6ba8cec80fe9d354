"""Tasks that brokers hand over to each other, on the map of one of them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.browser.conftest import Browser
from tests.browser.test_dashboard import ECHO_WORKER, opened
from tests.processes.conftest import wait_until
from tests.processes.networks import two_with_a_dashboard
from tests.processes.test_herald import address_of, ask

from famulus import Client
from famulus.errors import OutcomeError

#: The lines between this broker and b2: each begins at the left edge of a box, where no service is.
MOVING = "[...document.querySelectorAll('.links .bond ~ .tasks.moving')]"


@contextmanager
def asking(frontend: str, service: str) -> Iterator[None]:
    """Somebody who asks for the service all the time."""
    stop = threading.Event()

    def ask_on() -> None:
        with Client(frontend) as client:
            while not stop.wait(0.01):
                with suppress(OutcomeError):
                    client.request(service, b"x", timeout=5)

    thread = threading.Thread(target=ask_on)
    thread.start()
    yield
    stop.set()
    thread.join()


def test_tasks_between_brokers_flow_both_ways(browser: Browser, tmp_path: Path) -> None:
    with two_with_a_dashboard(tmp_path / "network") as network:
        b1, b2 = network["b1"], network["b2"]
        network.run("b2", str(ECHO_WORKER), b2.backend, "8", "only-there")
        network.run("b1", str(ECHO_WORKER), b1.backend, "8", "only-here")
        address = address_of(b1.broker)

        def rates() -> list[float]:
            brokers = ask(address, "/api/v1/brokers")[1].get("brokers", ())
            return [each[name] for each in brokers for name in ("given_rate_s", "taken_rate_s")]

        opened(browser, address)
        assert browser.run(f"{MOVING}.length") == 0
        with asking(b1.frontend, "only-there"), asking(b2.frontend, "only-here"):
            wait_until(lambda: len(rates()) == 4 and all(rates()), 30, "tasks in both directions")
            browser.wait_for(f"{MOVING}.length === 2")
            browser.wait_for("/\\d\\/s delegated, .*\\/s taken over/.test(document.querySelector('.here').innerText)")
            browser.wait_for(
                "/\\d\\/s from here, .*\\/s to here/.test(document.querySelector('[data-node=peer]').innerText)"
            )
            browser.look(1280, 900, ("prefers-reduced-motion", "no-preference"))
            assert browser.run(f"getComputedStyle({MOVING}[0]).animationName") == "flow"
            browser.look(1280, 900, ("prefers-reduced-motion", "reduce"))
            assert browser.run(f"getComputedStyle({MOVING}[0]).animationName") == "none"
            browser.screenshot(tmp_path / "flows.png")
        browser.wait_for(f"{MOVING}.length === 0")
        browser.look()
        assert browser.complaints == []
        told = ask(address, "/api/v1/brokers")[1]["brokers"]
        assert (told[0]["given"], told[0]["taken"]) == (told[1]["given"], told[1]["taken"])
