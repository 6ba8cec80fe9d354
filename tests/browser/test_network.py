"""What the dashboard of one broker shows of the others."""

from __future__ import annotations

import time
from pathlib import Path

from tests.browser.conftest import Browser
from tests.browser.test_dashboard import opened
from tests.processes.networks import two_with_a_dashboard
from tests.processes.test_herald import address_of

#: What is red must take no longer than this; on a machine that does too much at once, one of three times.
RED_S = 3.0
TRIES = 3


def shows(state: str) -> str:
    return f"[...document.querySelectorAll('.node.broker.{state}')].some((each) => each.innerText.includes('b2'))"


def test_a_peer_that_is_killed_is_red_within_three_seconds(browser: Browser, tmp_path: Path) -> None:
    took_s = []
    with two_with_a_dashboard(tmp_path / "network") as network:
        opened(browser, address_of(network["b1"].broker))
        for _ in range(TRIES):
            browser.wait_for(shows("active"))
            began = time.monotonic()
            network["b2"].kill()
            browser.wait_for(shows("gone"), 10)
            took_s.append(time.monotonic() - began)
            if took_s[-1] < RED_S:
                return
            network["b2"].start()
    raise AssertionError(f"it took {took_s} s")
