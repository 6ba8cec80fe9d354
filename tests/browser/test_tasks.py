"""The last tasks in a real browser, at a real broker: found by what somebody looks for, and each with its life."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from tests.browser.conftest import Browser
from tests.browser.test_dashboard import HOSTILE, opened
from tests.processes.conftest import HERE, BrokerProcess, WorkerProcess, wait_until
from tests.processes.test_herald import address_of, ask

from famulus import Client
from famulus.errors import FamulusError

ROWS = "document.querySelectorAll('tbody tr').length"
WIDE = "document.documentElement.scrollWidth > document.documentElement.clientWidth"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Of a broker that had five tasks that went well, two that failed, and one for a service that nobody offers."""
    folder = tmp_path_factory.mktemp("tasks")
    config = folder / "broker.toml"
    config.write_text("journal_roll_s = 1\n")
    with ExitStack() as closing:
        flags = ("--config", str(config), "--http-port", "0", "--routers", "1", "--identity", "vienna")
        broker = BrokerProcess(*flags, "--journal-folder", str(folder / "journal"))
        closing.callback(broker.close)
        program, ledger = str(HERE / "ledger_worker.py"), str(folder / "ledger")
        worker = WorkerProcess(program, broker.backend, ledger, "8", "pay", HOSTILE)
        closing.callback(worker.close)
        where = address_of(broker)
        wait_until(lambda: ask(where, "/readyz")[0] == 200, 20, "ready")
        with Client(broker.frontend) as client:
            for number in range(5):
                client.request("pay", b"x", message_id=f"order-{number}", timeout=10)
            for service, message_id in (("pay", "order-5"), (HOSTILE, HOSTILE), ("nobody", "order-7")):
                with suppress(FamulusError):
                    client.request(service, b"fail", message_id=message_id, timeout=10)
        wait_until(lambda: len(ask(where, "/api/v1/tasks")[1]["tasks"]) == 8, 20, "all tasks")
        wait_until(lambda: len(ask(where, "/api/v1/tasks?from=journal")[1].get("tasks", [])) == 8, 40, "the journal")
        yield where


def choose(browser: Browser, field: str, value: str) -> None:
    """As a person would in a list of choices."""
    browser.run(f"""(() => {{
      const list = document.querySelector('select[name={field}]');
      list.value = {json.dumps(value)};
      list.dispatchEvent(new Event('change', {{ bubbles: true }}));
    }})()""")


def test_tasks_are_found_by_how_they_ended_and_by_whom_they_were_for(browser: Browser, address: str) -> None:
    opened(browser, address, "tasks")
    browser.wait_for(f"{ROWS} === 8")
    choose(browser, "outcome", "failed")
    browser.wait_for(f"{ROWS} === 3")
    choose(browser, "reason", "ValueError")
    browser.wait_for(f"{ROWS} === 2")
    choose(browser, "service", "pay")
    browser.wait_for(f"{ROWS} === 1")
    assert browser.run("document.querySelector('tbody a').innerText") == "order-5"
    # The address says what is shown: it can be sent to somebody else.
    found = str(browser.run("location.hash"))
    assert "outcome=failed&" in found
    opened(browser, address, found.removeprefix("#/"))
    browser.wait_for(f"{ROWS} === 1 && document.querySelector('select[name=reason]').value === 'ValueError'")
    browser.run("[...document.querySelectorAll('button')].find((each) => each.innerText === 'Show all').click()")
    browser.wait_for(f"{ROWS} === 8 && document.querySelector('select[name=reason]').value === ''")
    assert browser.complaints == []


@pytest.mark.parametrize(
    ("message_id", "advice"),
    [
        ("order-1", "There is no need."),
        ("order-5", "That is for you to decide"),
        ("order-7", "Yes, it is safe."),
    ],
)
def test_a_task_has_its_life_and_says_whether_it_may_be_tried_again(
    browser: Browser, address: str, message_id: str, advice: str
) -> None:
    opened(browser, address, "tasks")
    row = f"[...document.querySelectorAll('tbody a')].find((each) => each.innerText === {json.dumps(message_id)})"
    browser.wait_for(f"!!{row}")
    browser.run(f"{row}.click()")
    browser.wait_for(f"document.querySelector('.verdict')?.innerText.includes({json.dumps(advice)})")
    assert browser.run("document.querySelector('h1').innerText") == message_id
    assert browser.run("document.querySelector('.step strong').innerText").startswith("Arrived from ")
    browser.wait_for("document.querySelector('main').innerText.includes('As the journal of this broker has it')")
    assert browser.complaints == []


def test_older_tasks_come_from_the_journal(browser: Browser, address: str) -> None:
    opened(browser, address, "tasks")
    browser.wait_for(f"{ROWS} === 8")
    button = "[...document.querySelectorAll('button')].find((each) => each.innerText.startsWith('Older'))"
    browser.run(f"{button}.click()")
    browser.wait_for("document.querySelector('main').innerText.includes('The journal has no older ones')", 40)
    assert browser.run(ROWS) == 8, "none is there twice"


def test_whatever_a_task_and_its_service_are_called_is_shown_and_never_run(browser: Browser, address: str) -> None:
    opened(browser, address, "tasks?outcome=failed")
    shown = f"[...document.querySelectorAll('tbody a')].find((each) => each.innerText === {json.dumps(HOSTILE)})"
    browser.wait_for(f"!!{shown}")
    browser.run(f"{shown}.click()")
    browser.wait_for(f"document.querySelector('h1').innerText === {json.dumps(HOSTILE)}")
    browser.wait_for("!!document.querySelector('.verdict')")
    assert browser.run("document.querySelectorAll('main img, main b').length") == 0
    assert "pwned" not in str(browser.run("document.title")).replace(HOSTILE, "")
    assert browser.complaints == []


def test_errors_are_told_by_service_and_reason_and_lead_to_their_tasks(browser: Browser, address: str) -> None:
    opened(browser, address, "errors")
    browser.wait_for(f"{ROWS} === 3")
    row = "[...document.querySelectorAll('tbody tr')].find((each) => each.innerText.includes('no_service'))"
    assert "Yes, it is safe." in browser.run(f"{row}.innerText")
    assert browser.run(f"{row}.querySelector('a.task').innerText") == "order-7"
    # The red number leads to what it counts.
    browser.run(f"{row}.querySelector('a.bad').click()")
    browser.wait_for(f"document.querySelector('h1').innerText === 'Tasks' && {ROWS} === 1")
    assert browser.run("document.querySelector('tbody a').innerText") == "order-7"
    opened(browser, address, "errors")
    browser.wait_for(f"{ROWS} === 3")
    browser.run(f"{row}.querySelector('a.task').click()")
    browser.wait_for("document.querySelector('.verdict')?.innerText.includes('Yes, it is safe.')")
    assert browser.complaints == []


def test_no_page_scrolls_sideways(browser: Browser, address: str, tmp_path: Path) -> None:
    """The pictures are for people: --basetemp says where they are."""
    for name, page in {"overview": "", "tasks": "tasks", "life": "tasks/order-5", "errors": "errors"}.items():
        opened(browser, address, page)
        browser.wait_for("!!document.querySelector('tbody tr, .step, .figure')")
        for width, scheme in ((1280, "light"), (360, "light"), (360, "dark")):
            browser.look(width, 900, ("prefers-color-scheme", scheme))
            assert not browser.run(WIDE), page
            browser.screenshot(tmp_path / f"{name}-{width}-{scheme}.png")


def test_a_running_task_says_how_far_it_is_and_then_how_it_ended(browser: Browser, tmp_path: Path) -> None:
    with ExitStack() as closing:
        broker = BrokerProcess("--http-port", "0", "--routers", "1")
        closing.callback(broker.close)
        go = tmp_path / "go"
        worker = WorkerProcess(str(HERE / "getting_on.py"), broker.backend, str(go))
        closing.callback(worker.close)
        client = closing.enter_context(Client(broker.frontend))
        future = client.submit("get_on", message_id="order-9", timeout=250)
        opened(browser, address_of(broker), "tasks")
        link = "document.querySelector('tbody a.task')"
        browser.wait_for(f"{link}?.innerText === 'order-9'")
        browser.run(f"{link}.click()")
        browser.wait_for("document.querySelector('.verdict')?.innerText.includes('Not yet: it is running.')")
        assert browser.run("document.querySelector('figure.spans').innerText") == "40 % page 2"
        go.touch()
        assert future.result() == b"done"
        browser.wait_for("document.querySelector('.verdict').innerText.includes('There is no need.')")
    assert browser.complaints == []
