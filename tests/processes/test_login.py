"""Admins at the HTTP port of a real network: logging in, doing something, and all that is refused."""

from __future__ import annotations

import json
import os
import signal
import socket
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from tests.processes.conftest import BrokerProcess, wait_until
from tests.processes.networks import PASSWORD, Network, famulus, two_with_a_dashboard
from tests.processes.test_herald import address_of, ask, herald_of

from famulus.broker.folder import Folder
from famulus.broker.tls import fingerprint


class Page:
    """A page of the dashboard, as far as admins are concerned."""

    def __init__(self, address: str, trust: ssl.SSLContext | None = None) -> None:
        self.address = address
        self.trust = trust
        self.secrets: dict[str, str] = {}

    def post(self, path: str, body: object, **headers: str) -> tuple[int, Any]:
        own = {"origin": self.address, "content-type": "application/json", **self.secrets, **headers}
        own = {name: value for name, value in own.items() if value}
        where = f"{self.address}/api/v1/admin/{path}"
        request = urllib.request.Request(where, json.dumps(body).encode(), own, method="POST")
        try:
            with urllib.request.urlopen(request, timeout=30, context=self.trust) as answer:
                told = json.loads(answer.read())
                if path == "login":
                    cookie = answer.headers["set-cookie"].partition(";")[0]
                    self.secrets = {"cookie": cookie, "x-famulus-token": told["token"]}
                return answer.status, told
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.loads(error.read())

    def log_in(self, password: str = PASSWORD, name: str = "admin") -> tuple[int, Any]:
        return self.post("login", {"name": name, "password": password})


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    with two_with_a_dashboard(tmp_path_factory.mktemp("login")) as network:
        yield network


@pytest.fixture
def page(network: Network) -> Page:
    address = address_of(network["b1"].broker)
    wait_until(lambda: ask(address, "/api/v1/admin/session")[1].get("offered"), 20, "a login")
    return Page(address)


def state_of_b2(page: Page) -> str:
    _, told = ask(page.address, "/api/v1/brokers")
    return next((each["state"] for each in told.get("brokers", ()) if each["identity"] == "b2"), "")


def test_a_broker_is_disabled_and_enabled(page: Page, network: Network) -> None:
    wait_until(lambda: state_of_b2(page) == "active", 20, "b2")
    code, told = page.log_in()
    assert (code, told["admin"]) == (200, "admin")
    code, told = page.post("disable", {"identity": "b2", "dry_run": True})
    assert (code, state_of_b2(page)) == (200, "active")
    code, told = page.post("disable", {"identity": "b2", "heads": told["plan"]["heads"]})
    assert (code, told["done"]["sentence"]) == (200, "accepted, seen by 1 of 2 brokers")
    wait_until(lambda: state_of_b2(page) == "disabled", 20, "b2 disabled")
    assert page.post("enable", {"identity": "b2"})[0] == 200
    wait_until(lambda: state_of_b2(page) == "active", 20, "b2 enabled")
    assert page.post("logout", {})[0] == 200
    assert page.post("disable", {"identity": "b2"})[0] == 401
    lines = "\n".join(network["b1"].broker.lines)
    assert "admin 'admin' logged in at the HTTP port" in lines
    assert ["HTTP port, 127.0.0.1", "admin"] in json.loads(Folder(network["b1"].path).admins.read_bytes())
    for secret in (PASSWORD, *page.secrets.values()):
        assert secret not in lines


def test_a_wrong_password_is_refused_and_has_to_wait(page: Page) -> None:
    code, told = page.log_in("wrong", name="nobody")
    assert (code, told) == (403, {"error": "not_allowed: wrong name or password"})
    code, told = page.log_in("wrong", name="nobody")
    assert (code, told["error"].partition(";")[0]) == (403, "not_allowed: too many wrong passwords")


def test_what_does_not_come_from_our_own_page_is_refused(page: Page, network: Network) -> None:
    wish = {"identity": "b2"}
    assert page.post("disable", wish)[0] == 403
    assert page.log_in()[0] == 200
    assert page.post("disable", wish, **{"x-famulus-token": ""})[0] == 403
    assert page.post("disable", wish, **{"x-famulus-token": "guessed"})[0] == 401
    assert page.post("disable", wish, cookie="")[0] == 401
    assert page.post("disable", wish, origin="http://evil.example")[0] == 403
    assert page.post("disable", wish, origin=page.address.rpartition(":")[0] + ":1")[0] == 403
    assert page.post("disable", wish, **{"sec-fetch-site": "same-site"})[0] == 403
    assert page.post("disable", wish, **{"content-type": "text/plain"})[0] == 415
    assert network["b1"].admin.value("broker_state/b2") != {"state": "disabled"}


def test_sessions_end_with_the_herald(page: Page, network: Network) -> None:
    """They are in its memory and nowhere else; to the page it is a session that has expired."""
    broker = network["b1"].broker
    assert page.log_in()[0] == 200
    before = herald_of(broker)
    os.kill(before, signal.SIGKILL)
    wait_until(lambda: herald_of(broker) not in (0, before), 20, "another herald")
    wait_until(lambda: ask(page.address, "/api/v1/admin/session")[1].get("offered"), 20, "a login")
    assert page.post("disable", {"identity": "b2"}) == (401, {"error": "you are not logged in, or no longer"})
    assert page.log_in()[0] == 200


def own_address() -> str:
    """Of this machine, by which others might reach it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # nothing is sent: the system only says by which address it would be
        except OSError:
            pytest.skip("this machine has no address but loopback")
        return str(probe.getsockname()[0])


def test_nobody_logs_in_from_elsewhere_without_tls(network: Network) -> None:
    host = own_address()
    member = network["b2"]
    member.kill()
    folder = Folder(member.path)
    folder.certificate.unlink()
    folder.certificate_key.unlink()
    flags = ("--http-port", "0", "--http-host", "0.0.0.0")
    member.start(*flags, wait=False)
    said = "http_host: all that is shown at 0.0.0.0 would be readable for everybody on the way; give it a certificate"
    assert member.broker.wait() == 2
    assert said in member.broker.output
    member.start(*flags, "--plain-on-purpose")
    assert (member.path / "plain-on-purpose").exists(), "for the doctor"
    member.broker.wait_for_line("can read all of this, and it is plain on purpose: so can everybody on the way")
    port = address_of(member.broker).rpartition(":")[2]
    near, far = Page(f"http://127.0.0.1:{port}"), Page(f"http://{host}:{port}")
    wait_until(lambda: ask(near.address, "/api/v1/admin/session")[1].get("offered"), 20, "a login")
    code, told = far.log_in()
    assert (code, told["error"].partition(",")[0]) == (403, "a password would be readable on its way")
    assert ask(far.address, "/api/v1/admin/session")[1]["offered"] is False
    assert ask(far.address, "/api/v1/brokers")[0] == 200
    assert ask(far.address, "/api/v1/status")[1]["plain_on_purpose"] is True
    assert near.log_in()[0] == 200


def test_over_tls_one_logs_in_from_elsewhere(network: Network) -> None:
    host, member = own_address(), network["b1"]
    folder = Folder(member.path)
    made = famulus("broker", "--folder", str(member.path), "--http-host", host, "--new-certificate").stdout
    assert f"fingerprint {fingerprint(folder.certificate)}; it counts when the broker starts again" in made
    member.kill()
    member.start("--http-port", "0", "--http-host", "0.0.0.0")
    address = address_of(member.broker)
    assert address.startswith("https://0.0.0.0:")
    member.broker.wait_for_line(f"fingerprint {fingerprint(folder.certificate)}$")
    assert "should be replaced" not in member.broker.output
    far = Page(address.replace("0.0.0.0", host), ssl.create_default_context(cafile=folder.certificate))
    session = "/api/v1/admin/session"
    wait_until(lambda: ask(far.address, session, far.trust)[1].get("offered"), 20, "a login")
    code, told = far.log_in()
    assert (code, told["admin"]) == (200, "admin")
    assert far.post("disable", {"identity": "b2", "dry_run": True})[0] == 200
    assert (
        far.post("disable", {"identity": "b2", "dry_run": True}, origin=far.address.replace("https", "http"))[0] == 403
    )
    # Without TLS there is nothing to see, not even that a broker is there.
    assert ask(far.address.replace("https", "http"), session) == (0, {})
    with pytest.raises(urllib.error.URLError, match="CERTIFICATE_VERIFY_FAILED"):
        Page(far.address).log_in()
    at = far.address.removeprefix("https://")
    assert "b1 (here)" in famulus("brokers", "--address", at, "--ca", str(folder.certificate)).stdout
    near = at.replace(host, "127.0.0.1")
    assert "b1 (here)" in famulus("brokers", env={"FAMULUS_HTTP": near}).stdout, "as ever on this machine"
    refused = famulus("brokers", "--address", at, code=7).stderr
    assert f"the SHA-256 fingerprint {fingerprint(folder.certificate)}; if it is your broker's" in refused


def test_a_broker_that_stands_alone_offers_no_login() -> None:
    broker = BrokerProcess("--http-port", "0", "--routers", "1")
    try:
        page = Page(address_of(broker))
        said = "this broker stands alone: only a network has admins (famulus init makes one)"
        wait_until(lambda: ask(page.address, "/api/v1/admin/session")[1].get("why") == said, 20, "the reason")
        assert page.log_in() == (409, {"error": said})
    finally:
        broker.close()
