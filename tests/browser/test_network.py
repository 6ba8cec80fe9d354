"""What the dashboard of one broker shows of the others."""

from __future__ import annotations

from pathlib import Path

from tests.browser.conftest import Browser
from tests.browser.test_dashboard import opened
from tests.processes.conftest import BUSY
from tests.processes.networks import two_with_a_dashboard
from tests.processes.test_herald import address_of

#: What is red takes no longer than this on an idle machine.
RED_S = 3.0


def shows(state: str) -> str:
    return f"[...document.querySelectorAll('.node.broker.{state}')].some((each) => each.innerText.includes('b2'))"


def test_a_peer_that_is_killed_is_soon_red(browser: Browser, tmp_path: Path) -> None:
    with two_with_a_dashboard(tmp_path / "network") as network:
        opened(browser, address_of(network["b1"].broker))
        browser.wait_for(shows("active"))
        network["b2"].kill()
        browser.wait_for(shows("gone"), BUSY * RED_S)
