"""The dashboard in a real browser, at a real broker."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from tests.browser.conftest import Browser
from tests.processes.conftest import HERE, BrokerProcess, Raw, WorkerProcess, brokers, raw, wait_until
from tests.processes.test_herald import address_of, ask

from famulus import Client

__all__ = ["brokers", "raw"]

QUIET = "document.querySelector('#alerts').innerText.trim() === ''"
ECHO_WORKER = HERE / "echo_worker.py"
HOSTILE = "<img src=x onerror=\"document.title='pwned'\"><b>'\"&amp;"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The HTTP port of a broker that has done something, for all tests that do it no harm."""
    with ExitStack() as closing:
        broker = BrokerProcess("--http-port", "0", "--routers", "1", "--identity", "vienna")
        closing.callback(broker.close)
        worker = WorkerProcess(str(ECHO_WORKER), broker.backend, "8", "echo", "other")
        closing.callback(worker.close)
        where = address_of(broker)
        wait_until(lambda: ask(where, "/readyz")[0] == 200, 20, "ready")
        with Client(broker.frontend) as client:
            for _ in range(20):
                client.request("echo", b"x", timeout=10)
        wait_until(lambda: ask(where, "/api/v1/status")[1]["tasks"]["ok"] == 20, 20, "the tasks")
        yield where


def opened(browser: Browser, address: str, page: str = "") -> Browser:
    deadline = time.monotonic() + 60
    changes = -1
    browser.look()
    while not browser.run("!!document.querySelector('main h1')") or changes == -1:
        assert time.monotonic() < deadline, f"{page} does not open: {browser.complaints}"
        if changes != browser.network_changes:  # then parts of the page may be missing
            changes = browser.network_changes
            browser.complaints.clear()
            browser.requests.clear()
            browser.open("about:blank")
            browser.open(f"{address}/#/{page}")
        time.sleep(0.05)
    return browser


def test_every_page_shows_what_it_is_for_and_asks_nobody_else(browser: Browser, address: str) -> None:
    shown = {
        "": ["vienna", "echo", "Throughput", "Clients"],
        "services": ["echo", "other", "p99"],
        "services/echo": ["Tasks per second", "20", "Workers", "Durations"],
        "workers": ["8", "ready"],
        "config": ["stands alone", "heartbeat_ms", "1.0 s", "64.0 MiB"],
        "access": ["No keys", "Nobody is connected with a key"],
        "errors": ["No task has failed", "it provably did not run"],
        "broker": ["dispatcher", "herald", "accepted"],
        "findings": ["There are no findings yet", "famulus pipeline run --journal", "keeps no journal"],
    }
    for page, words in shown.items():
        opened(browser, address, page)
        for word in words:
            browser.wait_for(f"document.querySelector('main').innerText.includes({json.dumps(word)})")
        assert browser.complaints == []
        assert all(request.startswith((address, "about:", "data:")) for request in browser.requests)


def test_names_are_shown_and_never_run(
    browser: Browser, brokers: Callable[..., BrokerProcess], raw: Callable[..., Raw]
) -> None:
    broker = brokers("--http-port", "0", "--routers", "1", "--identity", HOSTILE)
    worker = raw(broker.backend)
    worker.become_worker(HOSTILE, HOSTILE, heartbeat_ms=60_000)
    for page in ("", "services", "workers"):
        opened(browser, address_of(broker), page)
        browser.wait_for(f"document.querySelector('main').innerText.includes({json.dumps(HOSTILE)})")
    browser.run("document.querySelector('tbody a').click()")
    browser.wait_for(f"document.querySelector('h1').innerText === {json.dumps(HOSTILE)}")
    assert browser.run("document.querySelectorAll('main img, main b').length") == 0
    assert "pwned" not in str(browser.run("document.title")).replace(HOSTILE, "")
    assert browser.complaints == []


def test_a_worker_has_its_load_of_late(browser: Browser, address: str) -> None:
    opened(browser, address, "workers")
    browser.wait_for("!!document.querySelector('tbody a')")
    name = browser.run("document.querySelector('tbody a').innerText")
    browser.run("document.querySelector('tbody a').click()")
    drawn = f"document.querySelector('svg[aria-label^={json.dumps('busy slots of ' + name)}]')"
    browser.wait_for(f"!!{drawn}")
    # The worker has eight slots, and that is the height of the picture.
    assert browser.run(f"{drawn}.previousSibling.innerText").split() == ["8", "4", "0"]
    path = f"{drawn}.querySelector('.line').getAttribute('d')"
    first = browser.run(path)
    browser.wait_for(f"{path} !== {json.dumps(first)}")
    assert ask(address, f"/api/v1/workers/{name}")[1]["seconds"]
    assert browser.complaints == []


def test_a_chart_says_what_it_shows_where_one_points(browser: Browser, address: str) -> None:
    opened(browser, address, "services/echo")
    chart = "document.querySelector('svg[aria-label^=\"tasks per second of echo\"]')"
    browser.wait_for(f"!!{chart}")
    browser.run(f"""(() => {{
      const frame = {chart}.getBoundingClientRect();
      {chart}.dispatchEvent(new PointerEvent('pointermove', {{ clientX: frame.left + 1, clientY: frame.top + 9 }}));
    }})()""")
    told = browser.wait_for("document.querySelector('.tip')?.innerText")
    assert "all tasks" in told
    assert "failed" in told
    # It stays there when the picture moves on.
    first = browser.run("document.querySelector('footer').innerText")
    browser.wait_for(f"document.querySelector('footer').innerText !== {json.dumps(first)}")
    assert browser.run("document.querySelectorAll('.tip').length") == 1
    browser.run(f"{chart}.dispatchEvent(new PointerEvent('pointerleave'))")
    browser.wait_for("!document.querySelector('.tip')")
    assert browser.complaints == []


def test_the_past_is_shown_as_far_back_as_one_chooses(browser: Browser, address: str) -> None:
    opened(browser, address)
    pressed = "document.querySelector('.ranges [aria-pressed=true]').innerText"
    assert browser.wait_for(pressed) == "15 min"
    browser.run("[...document.querySelectorAll('.ranges button')].find((each) => each.innerText === '5 min').click()")
    browser.wait_for(f"{pressed} === '5 min'")
    first = browser.run("document.querySelector('footer').innerText")
    browser.wait_for(f"document.querySelector('footer').innerText !== {json.dumps(first)}")
    assert browser.run(pressed) == "5 min"
    # From the arrival to the answer, also where tasks came only for a moment.
    browser.wait_for("!!document.querySelector('svg[aria-label^=durations] .line')")


def test_on_a_narrow_screen_what_fails_comes_first(browser: Browser, address: str) -> None:
    opened(browser, address)
    first = """
      [...document.querySelectorAll('.figure')]
        .sort((a, b) => a.getBoundingClientRect().top - b.getBoundingClientRect().top)[0].innerText"""
    browser.wait_for(f"{first}.startsWith('Tasks per second')")
    browser.look(360, 740)
    browser.wait_for(f"{first}.startsWith('Failing per second')")


def test_figures_move_by_themselves(browser: Browser, address: str) -> None:
    opened(browser, address)
    first = browser.wait_for("document.querySelector('footer').innerText")
    browser.wait_for(f"document.querySelector('footer').innerText !== {json.dumps(first)}")


def test_a_broker_that_is_gone_is_red_and_comes_back(browser: Browser, brokers: Callable[..., BrokerProcess]) -> None:
    broker = brokers("--http-port", "0", "--routers", "1")
    address = address_of(broker)
    opened(browser, address)
    browser.wait_for(QUIET)
    herald = next(each["pid"] for each in ask(address, "/api/v1/status")[1]["processes"] if each["name"] == "herald")
    os.kill(herald, signal.SIGSTOP)
    browser.wait_for("document.querySelector('#alerts').innerText.includes('does not answer')")
    assert browser.run("document.body.classList.contains('lost')")
    assert browser.run("document.querySelector('#alerts').getAttribute('aria-live')") == "assertive"
    os.kill(herald, signal.SIGKILL)
    browser.wait_for(QUIET)
    browser.wait_for("!document.body.classList.contains('lost')")


def test_the_page_notices_silence_within_three_seconds(browser: Browser, address: str) -> None:
    """By its own clock: 2.5 s of silence, looked for four times a second."""
    opened(browser, address)
    source = browser.run("fetch('/static/live.js').then((answer) => answer.text())")
    assert "SILENCE_MS = 2500" in source
    assert "this.watch(), 250" in source


def test_it_can_be_used_with_the_keyboard_and_a_screen_reader(browser: Browser, address: str) -> None:
    opened(browser, address, "services")
    browser.wait_for("document.querySelectorAll('tbody tr').length === 2")
    assert browser.run("['header', 'nav', 'main', 'footer'].every((tag) => document.querySelector(tag))")
    assert browser.run("document.querySelectorAll('h1').length") == 1
    assert browser.run("[...document.querySelectorAll('table')].every((table) => table.caption && table.tHead)")
    assert browser.run(
        "[...document.querySelectorAll('svg[role=img]')].every((each) => each.getAttribute('aria-label'))"
    )
    browser.press("Tab")
    assert browser.run("document.activeElement.className") == "skip"
    assert browser.run("getComputedStyle(document.activeElement).outlineStyle") != "none"
    # The second heading that sorts: by key, and the focus stays where it was through the next seconds.
    browser.run("document.querySelectorAll('button.sort')[1].focus()")
    browser.press("Enter")
    browser.wait_for("document.activeElement.closest('th')?.getAttribute('aria-sort') === 'descending'")
    first = browser.run("document.querySelector('footer').innerText")
    browser.wait_for(f"document.querySelector('footer').innerText !== {json.dumps(first)}")
    assert browser.run("document.activeElement.className") == "sort"


def test_a_search_narrows_and_keeps_the_focus(browser: Browser, address: str) -> None:
    opened(browser, address, "services")
    browser.wait_for("document.querySelectorAll('tbody tr').length === 2")
    browser.run(
        "const box = document.querySelector('input'); box.focus(); box.value = 'ech'; box.oninput({target: box})"
    )
    browser.wait_for("document.querySelectorAll('tbody tr').length === 1")
    assert browser.run("document.activeElement.tagName") == "INPUT"
    assert browser.run("document.activeElement.value") == "ech"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_both_schemes_are_readable(browser: Browser, address: str, scheme: str) -> None:
    """The contrast of text and of what is softer, against the cards and the paper, as WCAG wants it: 4.5 to 1."""
    opened(browser, address)
    browser.look(1280, 900, ("prefers-color-scheme", scheme))
    contrast = """
      (() => {
        const of = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
        const light = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16) / 255)
          .map((each) => (each <= 0.03928 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4))
          .reduce((sum, each, index) => sum + each * [0.2126, 0.7152, 0.0722][index], 0);
        const ratio = (a, b) => {
          const [low, high] = [light(of(a)), light(of(b))].sort((x, y) => x - y);
          return (high + 0.05) / (low + 0.05);
        };
        const inks = ['--ink', '--soft', '--ok', '--error', '--wait', '--busy'];
        return Math.min(...inks.flatMap((ink) => ['--card', '--paper'].map((paper) => ratio(ink, paper))));
      })()"""
    assert browser.run(contrast) >= 4.5


def test_narrow_screens_scroll_only_downwards(browser: Browser, address: str) -> None:
    for page in ("", "services", "services/echo", "workers", "errors", "broker", "findings"):
        opened(browser, address, page)
        browser.look(360, 740)
        wide = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
        assert not browser.run(wide), page


def test_who_wants_no_motion_sees_none(browser: Browser, address: str) -> None:
    opened(browser, address)
    browser.wait_for("!!document.querySelector('.links path:nth-child(2)')")
    # In one go: the next picture takes the class away again.
    moves = """
      (() => {
        const path = document.querySelector('.links path:nth-child(2)');
        path.classList.add('moving');
        return getComputedStyle(path).animationName;
      })()"""
    browser.look(1280, 900, ("prefers-reduced-motion", "no-preference"))
    assert browser.run(moves) == "flow"
    browser.look(1280, 900, ("prefers-reduced-motion", "reduce"))
    assert browser.run(moves) == "none"
