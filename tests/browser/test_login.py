"""An admin at the dashboard: a real browser, a real network, and only the keyboard."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.browser.conftest import Browser
from tests.browser.test_dashboard import opened
from tests.processes.conftest import Raw, raw
from tests.processes.networks import PASSWORD, Network, two_with_a_dashboard
from tests.processes.test_herald import address_of

__all__ = ["raw"]

DIALOG = "document.querySelector('dialog').innerText"
FOCUS = "document.activeElement.getAttribute('aria-label') ?? document.activeElement.innerText"
#: More than there are on any page.
TABS_MAX = 80


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    with two_with_a_dashboard(tmp_path_factory.mktemp("login")) as network:
        yield network


@pytest.fixture(scope="module")
def address(network: Network) -> str:
    return address_of(network["b1"].broker)


def tab_to(browser: Browser, label: str) -> None:
    """By the keyboard alone."""
    for _ in range(TABS_MAX):
        if browser.run(FOCUS) == label:
            return
        browser.press("Tab")
    raise AssertionError(f"the focus never comes to {label}")


def logged_in(browser: Browser, address: str, page: str = "config") -> Browser:
    """Whoever was logged in before."""
    opened(browser, address, page)
    browser.run("localStorage.clear()")
    opened(browser, address, page)
    browser.wait_for("document.querySelector('#account button')?.innerText === 'Log in'")
    tab_to(browser, "Log in")
    browser.press("Enter")
    browser.wait_for("document.activeElement.id === 'login-name'")
    browser.type("admin")
    browser.press("Tab")
    browser.type(PASSWORD)
    browser.press("Enter")
    browser.wait_for("document.querySelector('#account').innerText.includes('Log out')")
    browser.wait_for("!document.querySelector('dialog').open")
    return browser


def test_without_a_login_there_is_nothing_to_press(browser: Browser, address: str) -> None:
    opened(browser, address, "config")
    browser.wait_for("document.querySelector('#account button')?.innerText === 'Log in'")
    browser.wait_for("document.querySelectorAll('tbody tr').length >= 2")
    assert browser.run("document.querySelectorAll('main .button').length") == 0


def test_a_wrong_password_is_said_and_another_one_can_be_typed(browser: Browser, address: str, tmp_path: Path) -> None:
    opened(browser, address)
    browser.wait_for("document.querySelector('#account button')?.innerText === 'Log in'")
    tab_to(browser, "Log in")
    browser.press("Enter")
    browser.wait_for("document.activeElement.id === 'login-name'")
    browser.type("somebody")
    browser.press("Tab")
    browser.type("wrong")
    browser.press("Enter")
    browser.wait_for("document.querySelector('dialog [role=alert]').innerText === 'wrong name or password'")
    browser.screenshot(tmp_path / "login.png")
    assert browser.run("[document.activeElement.id, document.activeElement.value]") == ["login-password", ""]
    assert browser.run("[...document.querySelectorAll('dialog input')].every((each) => each.labels.length === 1)")
    browser.press("Escape")
    browser.wait_for("!document.querySelector('dialog').open")
    assert browser.run(FOCUS) == "Log in", "the focus is back"
    # The answer itself is an error to the browser, and that is all it complained of.
    assert [each for each in browser.complaints if "403" not in each] == []


def test_a_broker_is_drained_and_enabled_by_keyboard(
    browser: Browser, address: str, network: Network, tmp_path: Path
) -> None:
    logged_in(browser, address)
    assert browser.run("document.querySelector('#notice').innerText") == "You are logged in as admin."
    kept = "JSON.stringify([{...localStorage}, {...sessionStorage}, document.body.outerHTML])"
    assert PASSWORD not in browser.run(kept)
    assert browser.run("document.cookie") == "", "no script can read it"
    for verb, state, then in (("Drain", "draining", "Enable"), ("Enable", "active", "Drain")):
        browser.wait_for(f"!!document.querySelector('button[aria-label=\"{verb} b2\"]')")
        tab_to(browser, f"{verb} b2")
        browser.press("Enter")
        browser.wait_for(f"{DIALOG}.includes('broker_state/b2')")
        assert state in browser.run(DIALOG)
        browser.screenshot(tmp_path / f"{verb}.png")
        assert browser.run(FOCUS) == verb, "the question has the focus"
        browser.press("Enter")
        browser.wait_for(f"{DIALOG}.includes('accepted, seen by 2 of 2 brokers')")
        assert browser.run("document.querySelector('dialog .answer').getAttribute('role')") == "status"
        browser.press("Enter")
        browser.wait_for("!document.querySelector('dialog').open")
        assert network["b1"].admin.value("broker_state/b2") == {"state": state}
        browser.wait_for(f"!!document.querySelector('button[aria-label=\"{then} b2\"]')")
    assert browser.complaints == []


def test_a_key_is_set_and_who_is_slower_sees_the_difference(browser: Browser, address: str, network: Network) -> None:
    network["b1"].admin.put("service/echo", {"timeout_ms": 1000})
    logged_in(browser, address)
    browser.wait_for("!!document.querySelector('button[aria-label=\"Edit service/echo\"]')")
    tab_to(browser, "Edit service/echo")
    browser.press("Enter")
    browser.wait_for("document.activeElement.id === 'edit-value'")
    browser.run("document.activeElement.value = '{\"timeout_ms\": 20'")
    browser.press("Tab")
    tab_to(browser, "Show what changes")
    browser.press("Enter")
    browser.wait_for("document.querySelector('dialog [role=alert]').innerText.includes('not JSON')")
    browser.run("document.querySelector('dialog textarea').value = '{\"timeout_ms\": 2000}'")
    tab_to(browser, "Show what changes")
    browser.press("Enter")
    browser.wait_for(f"{DIALOG}.includes('1000') && {DIALOG}.includes('2000')")
    network["b1"].admin.put("service/echo", {"timeout_ms": 3000})
    tab_to(browser, "Set it")
    browser.press("Enter")
    browser.wait_for(f"{DIALOG}.includes('changed since you looked') && {DIALOG}.includes('3000')")
    browser.press("Escape")
    browser.wait_for("!document.querySelector('dialog').open")
    assert network["b1"].admin.value("service/echo") == {"timeout_ms": 3000}


def test_a_reload_keeps_the_session_and_logging_out_ends_it(browser: Browser, address: str) -> None:
    logged_in(browser, address)
    opened(browser, address, "config")
    browser.wait_for("document.querySelector('#account').innerText.includes('Log out')")
    token = browser.run("localStorage.getItem('famulus-token')")
    tab_to(browser, "Log out")
    browser.press("Enter")
    browser.wait_for("document.querySelector('#account button').innerText === 'Log in'")
    browser.wait_for("document.querySelectorAll('main .button').length === 0")
    assert browser.run("localStorage.length") == 0
    headers = json.dumps({"x-famulus-token": token})
    assert browser.run(f"fetch('/api/v1/admin/config', {{headers: {headers}}}).then((each) => each.status)") == 401


def test_narrow_screens_scroll_only_downwards(browser: Browser, address: str, tmp_path: Path) -> None:
    logged_in(browser, address)
    browser.look(360, 740)
    browser.wait_for("!!document.querySelector('button[aria-label=\"Disable b2\"]')")
    browser.run("document.querySelector('button[aria-label=\"Disable b2\"]').click()")
    browser.wait_for(f"{DIALOG}.includes('broker_state/b2')")
    assert browser.run(FOCUS) == "Cancel", "what may hurt is not one key away"
    for scheme in ("light", "dark"):
        browser.look(360, 740, ("prefers-color-scheme", scheme))
        browser.screenshot(tmp_path / f"narrow-{scheme}.png")
        for each in ("document.documentElement", "document.querySelector('dialog')"):
            assert not browser.run(f"{each}.scrollWidth > {each}.clientWidth"), each
    browser.press("Escape")
    browser.look()


def test_a_worker_is_forgiven(browser: Browser, address: str, network: Network, raw: Callable[..., Raw]) -> None:
    worker = raw(network["b1"].backend)
    worker.become_worker("clumsy", "x")
    for _ in range(8):
        worker.send(b"", b"rubbish", b"")
    logged_in(browser, address, "broker")
    browser.wait_for("!!document.querySelector('button[aria-label=\"Forgive clumsy\"]')")
    tab_to(browser, "Forgive clumsy")
    browser.press("Enter")
    browser.wait_for(f"{DIALOG}.includes('may connect again at once')")
    browser.press("Enter")
    browser.wait_for(f"{DIALOG}.includes('clumsy is forgiven')")
    browser.press("Enter")
    browser.wait_for("!document.querySelector('button[aria-label=\"Forgive clumsy\"]')")
    assert browser.complaints == []


def test_a_conflict_is_resolved_by_keyboard(browser: Browser, network: Network, tmp_path: Path) -> None:
    """The last one here: both brokers are started anew, one without the other, to have a key with two heads."""
    b1, b2 = network["b1"], network["b2"]
    b2.kill()
    b1.admin.put("service/disputed", {"timeout_ms": 1111})
    b1.kill()
    b2.start()
    b2.admin.put("service/disputed", {"timeout_ms": 2222})
    b1.start("--http-port", "0")
    network.wait_until_in_step(20)
    logged_in(browser, address_of(b1.broker))
    browser.wait_for("document.querySelectorAll('.conflict button').length === 3")
    shown = browser.run("document.querySelector('.conflict').innerText")
    assert "1111" in shown
    assert "2222" in shown
    browser.run("document.querySelector('.conflict').scrollIntoView()")
    browser.screenshot(tmp_path / "conflict.png")
    label = browser.run(
        "[...document.querySelectorAll('.conflict li')].find((each) => each.innerText.includes('1111'))"
        ".querySelector('button').getAttribute('aria-label')"
    )
    tab_to(browser, label)
    browser.press("Enter")
    browser.wait_for(f"{DIALOG}.includes('ends the conflict of its 2 heads')")
    browser.screenshot(tmp_path / "choose.png")
    browser.press("Enter")
    browser.wait_for(f"{DIALOG}.includes('accepted, seen by 2 of 2 brokers')")
    browser.press("Enter")
    browser.wait_for("!document.querySelector('.conflict')")
    for member in (b1, b2):
        assert member.admin.told("show")["conflicts"] == []
        assert member.admin.value("service/disputed") == {"timeout_ms": 1111}
    assert browser.complaints == []
