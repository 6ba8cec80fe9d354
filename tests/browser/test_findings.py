"""What the pipeline found, in a real browser: looked at by anybody, and applied by an admin with the keyboard."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.browser.conftest import Browser
from tests.browser.test_dashboard import HOSTILE, opened
from tests.browser.test_login import DIALOG, FOCUS, logged_in, tab_to
from tests.processes.conftest import wait_until
from tests.processes.networks import Network, two_with_a_dashboard
from tests.processes.test_herald import address_of, ask
from tests.unit.tables.conftest import finding, write

from famulus.tables.finding import FILE

MAIN = "document.querySelector('main').innerText"
APPLY = "Apply: the backlog of echo is too short"
SEEN = datetime.now(UTC) - timedelta(hours=3)
FINDINGS = [
    finding(
        1,
        severity="critical",
        kind="audit",
        subject="no_outcome",
        title="2 rows of the audit are not explained: no_outcome",
        evidence="the first is task 01f3 at b1: the broker went on, and never told how it ended",
        advice="Look at these tasks in task_facts, and at the log of that broker.",
        key=None,
        value=None,
        last_seen=SEEN,
    ),
    finding(2, last_seen=SEEN),
    finding(3, severity="info", subject=HOSTILE, title=HOSTILE, evidence=HOSTILE, key=HOSTILE, value=None),
    finding(4, severity=HOSTILE, key="service/echo", value=json.dumps({HOSTILE: HOSTILE}), last_seen=SEEN),
]


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pipeline") / "tables"


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory, tables: Path) -> Iterator[Network]:
    path = tmp_path_factory.mktemp("findings")
    with two_with_a_dashboard(path, "--tables-folder", str(tables), "--journal-folder", str(path / "j")) as network:
        yield network


@pytest.fixture(scope="module")
def address(network: Network) -> str:
    return address_of(network["b1"].broker)


def told(address: str) -> Any:
    return ask(address, "/api/v1/findings")[1]


def shown(browser: Browser, address: str, tables: Path, *rows: dict[str, Any]) -> Browser:
    write(tables, *rows)
    wait_until(lambda: told(address).get("total") == len(rows), 20, "the new findings")
    opened(browser, address, "findings")
    browser.wait_for(f"document.querySelectorAll('.finding').length === {len(rows)}")
    return browser


def test_findings_come_by_themselves_once_there_are_some(
    browser: Browser, address: str, tables: Path, tmp_path: Path
) -> None:
    opened(browser, address, "findings")
    browser.wait_for(f"{MAIN}.includes('There are no findings yet')")
    assert f"--tables {tables}" in browser.run(MAIN)
    browser.screenshot(tmp_path / "none.png")
    write(tables)
    browser.wait_for(f"{MAIN}.includes('Nothing was found that an admin should do')")
    assert "Every task that the journal knows of is accounted for" in browser.run(MAIN)
    assert browser.complaints == []


def test_everything_about_a_finding_is_shown_and_nothing_is_run(browser: Browser, address: str, tables: Path) -> None:
    shown(browser, address, tables, *FINDINGS)
    for words in (
        "Not every task is accounted for",
        "the most urgent first",
        "critical",
        "about no_outcome, last seen 3 h ago",
        "12 % were rejected",
        "Do: Let more tasks wait.",
        "backlog_tasks_max to 5000",
        "log in, or famulus findings apply 2",
        HOSTILE,
    ):
        assert words in browser.run(MAIN), words
    assert browser.run("[...document.querySelectorAll('.severity')].map((each) => each.className)") == [
        "severity critical",
        "severity warning",
        "severity info",
        "severity info",
    ]
    assert browser.run("document.querySelectorAll('main img, main b, main .button').length") == 0
    assert "pwned" not in str(browser.run("document.title"))
    assert browser.complaints == []


def test_the_journal_is_shown(browser: Browser, address: str, network: Network) -> None:
    opened(browser, address, "findings")
    browser.wait_for(f"{MAIN}.includes('Rows not in a file yet')")
    browser.wait_for(f"{MAIN}.includes('ready')")
    in_the_making = (
        "[...document.querySelectorAll('dt')].find((each) => each.innerText === 'Rows not in a file yet')"
        ".nextSibling.innerText"
    )
    browser.wait_for(f"Number({in_the_making}) > 0")


def test_a_finding_is_applied_by_keyboard(
    browser: Browser, address: str, network: Network, tables: Path, tmp_path: Path
) -> None:
    network["b1"].admin.put("service/echo", {"timeout_ms": 1000})
    shown(browser, address, tables, *FINDINGS[:3])
    logged_in(browser, address, "findings")
    browser.wait_for("document.querySelectorAll('main .button').length === 1")
    tab_to(browser, APPLY)
    browser.press("Enter")
    browser.wait_for(f"{DIALOG}.includes('backlog_tasks_max')")
    assert "5000" in browser.run(DIALOG)
    assert "timeout_ms" not in browser.run(DIALOG), "it stays as it is"
    assert browser.run(FOCUS) == "Make this edit"
    browser.screenshot(tmp_path / "apply.png")
    browser.press("Enter")
    browser.wait_for(f"{DIALOG}.includes('accepted, seen by 2 of 2 brokers')")
    browser.press("Enter")
    browser.wait_for("!document.querySelector('dialog').open")
    assert browser.run(FOCUS) == APPLY, "the focus is back"
    assert network["b1"].admin.value("service/echo") == {"timeout_ms": 1000, "backlog_tasks_max": 5000}
    browser.press("Enter")
    browser.wait_for(f"{DIALOG}.includes('Nothing would change')")
    # Closed and opened again before the browser tells that it was closed.
    browser.run("document.querySelector('dialog').close(); document.activeElement.click()")
    browser.wait_for(f"{DIALOG}.includes('Nothing would change')")
    browser.press("Escape")
    browser.wait_for("!document.querySelector('dialog').open")
    assert browser.complaints == []


def test_narrow_screens_scroll_only_downwards(browser: Browser, address: str, tables: Path, tmp_path: Path) -> None:
    shown(browser, address, tables, *FINDINGS)
    for scheme in ("light", "dark"):
        browser.look(1280, 900, ("prefers-color-scheme", scheme))
        browser.screenshot(tmp_path / f"wide-{scheme}.png")
        browser.look(360, 740, ("prefers-color-scheme", scheme))
        in_view = "document.querySelector('nav [aria-current]').getBoundingClientRect().right <= 360"
        browser.wait_for(in_view)
        browser.screenshot(tmp_path / f"narrow-{scheme}.png")
        assert not browser.run("document.documentElement.scrollWidth > document.documentElement.clientWidth")
    browser.look()


def test_a_file_that_is_something_else_is_said_so(browser: Browser, address: str, tables: Path) -> None:
    write(tables)
    (tables / FILE).write_bytes(b"rubbish" * 100)
    wait_until(lambda: told(address).get("problem"), 20, "a problem")
    opened(browser, address, "findings")
    browser.wait_for(f"{MAIN}.includes('the findings cannot be read')")
    assert browser.run("document.querySelector('main .complaint').getAttribute('role')") == "alert"
    assert "famulus pipeline run" in browser.run(MAIN)
    assert browser.complaints == []
