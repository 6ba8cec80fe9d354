"""Who is connected and who was refused, and where one can log in: a real browser at a board that a test fills."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import uvicorn
from tests.browser.conftest import Browser
from tests.browser.test_dashboard import HOSTILE, opened
from tests.browser.test_login import logged_in
from tests.processes.networks import two_with_a_dashboard
from tests.processes.test_herald import address_of
from tests.processes.test_login import own_address
from tests.unit.web.status.conftest import dispatcher, steward, supervisor

from famulus.broker.folder import Folder
from famulus.web.app import Api, make_app
from famulus.web.events import Events
from famulus.web.findings import Findings
from famulus.web.past import PastTasks
from famulus.web.status.board import Board
from famulus.wire import status

TEXT = "document.querySelector('main').innerText"


@contextmanager
def served(*snapshots: status.Snapshot) -> Iterator[str]:
    """The address of a port that has heard this and nothing since."""
    board = Board()
    for snapshot in snapshots:
        # It stays fresh: nobody is silent in this test.
        board.take(snapshot, time.monotonic_ns() + 10**12, int(time.time() * 1000))
    app = make_app(Api(board, Findings("", ""), PastTasks(None)), Events(board), "127.0.0.1")
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, lifespan="off", log_config=None, timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        listener.close()


def refusal(**facts: object) -> status.Refusal:
    told = {
        "port": "frontend",
        "wanted": "connect",
        "why": "unknown_key",
        "principal": "",
        "key": "ab" * 32,
        "address": "10.0.0.9",
        "service": "",
        "times": 1,
        "ago_ms": 1000,
    }
    return status.Refusal(**told | facts)  # type: ignore[arg-type]


def test_who_is_connected_and_who_was_refused(browser: Browser) -> None:
    connected = (
        status.Presence("shop", "frontend", 3, 600_000),
        status.Presence("gpu-7", "backend", 1, 30_000),
        status.Presence(HOSTILE, "backend", 1, 0),
    )
    refused = (
        refusal(times=17),
        refusal(ago_ms=5, key="", address=HOSTILE, why="no_key", port="backend"),
        refusal(principal="shop", wanted="call", service="img.resize", why="not_allowed"),
        refusal(principal=HOSTILE, key=HOSTILE, wanted=HOSTILE, service=HOSTILE, why=HOSTILE),
    )
    told = dispatcher(1, principals=connected, refusals=refused)
    with served(told, supervisor(network=True), steward(keys="all")) as address:
        opened(browser, address, "access")
        for words in (
            "Keys from everybody",
            "shop",
            "10 min",
            "gpu-7",
            "unknown key abababababab",
            "no key",
            "17",
            HOSTILE,
        ):
            browser.wait_for(f"{TEXT}.includes({json.dumps(words)})")
        assert browser.run(f"{TEXT}.includes('call img.resize')")
        assert browser.run("document.querySelectorAll('main img').length") == 0
        assert "pwned" not in browser.run("document.title")
        assert browser.run("document.querySelector('#alerts').innerText.trim()") == ""
        assert browser.complaints == []


def test_a_broker_that_tells_nothing_about_it_has_an_empty_page(browser: Browser) -> None:
    with served(dispatcher(1), supervisor(plain_on_purpose=True)) as address:
        opened(browser, address, "access")
        for words in ("No keys", "Nobody is connected with a key", "Nobody was refused"):
            browser.wait_for(f"{TEXT}.includes({json.dumps(words)})")
        browser.wait_for("document.querySelector('#alerts').innerText.includes('Plain on purpose')")
        assert browser.complaints == []


@pytest.mark.parametrize("tls", [True, False])
def test_from_elsewhere_one_logs_in_over_tls_only(browser: Browser, tmp_path: Path, tls: bool) -> None:
    host = own_address()
    with two_with_a_dashboard(tmp_path / "network") as network:
        member = network["b1"]
        member.kill()
        folder = Folder(member.path)
        if not tls:
            folder.certificate.unlink()
            folder.certificate_key.unlink()
        member.start("--http-port", "0", "--http-host", "0.0.0.0", "--plain-on-purpose")
        address = address_of(member.broker).replace("0.0.0.0", host)
        # As somebody who has compared the fingerprint, and goes on.
        browser.trust_every_certificate()
        if tls:
            assert address.startswith("https://")
            logged_in(browser, address)
            return
        opened(browser, address, "config")
        browser.wait_for("document.querySelector('#account').innerText.includes('No login here')")
        browser.wait_for(f"{TEXT}.includes('a password would be readable on its way')")
        assert browser.run("document.querySelectorAll('#account button, input').length") == 0
