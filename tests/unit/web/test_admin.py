"""Logging in and what it allows, at a steward's real decisions behind a real socket, with passwords that are quick."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
import zmq
from tests.unit.core.steward.conftest import PASSWORD, Network, hashed, networks
from tests.unit.core.steward.test_commands import Desk
from tests.unit.tables.conftest import finding, write
from tests.unit.web.conftest import HERE, Clock, Port
from tests.unit.web.status.conftest import supervisor

from famulus.core.clock import NS_PER_S
from famulus.core.steward.commands import HTTP_PORT
from famulus.web import admission, office
from famulus.web.admin import ACTIONS, BODY_BYTES_MAX
from famulus.web.sessions import IDLE_NS

__all__ = ["networks"]

ORIGIN = f"http://{HERE}:7104"
PAGE = {"origin": ORIGIN, "sec-fetch-site": "same-origin", "content-type": "application/json"}


class StewardSocket:
    """A steward's ROUTER for admins. What admins ask is decided by the core, and noted."""

    def __init__(self, desk: Desk, address: str) -> None:
        self.desk = desk
        self.address = address
        self.asked: list[bytes] = []
        self.deaf = threading.Event()
        self._stop = threading.Event()
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.ROUTER)
        self._socket.linger = 0
        self._socket.bind(address)
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        with self._socket:
            while not self._stop.is_set():
                if not self._socket.poll(10) or self.deaf.is_set():
                    self._stop.wait(0.01)
                    continue
                route, envelope, header, body = self._socket.recv_multipart()
                self.asked.append(header)
                answer = self.desk.says(header, body)
                if answer.edits:
                    self.desk.member.core.add(answer.edits, logged=True)
                self._socket.send_multipart([route, envelope, answer.header, answer.body])

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
        self._context.term()


class Visitor:
    """A browser with one page of the dashboard in it."""

    def __init__(self, port: Port) -> None:
        self.port = port
        self.cookie = self.token = ""

    def post(self, path: str, body: object = None, *, client: str = HERE, **headers: str | None) -> httpx.Response:
        """Headers by their names, with _ for -; None for one that is missing."""
        own = {**PAGE, "cookie": self.cookie, "x-famulus-token": self.token}
        own |= {name.replace("_", "-"): value for name, value in headers.items()}  # type: ignore[misc]
        content = body if isinstance(body, bytes) else msgspec.json.encode(body if body is not None else {})
        given = {name: value for name, value in own.items() if value}
        return self.port.ask("POST", f"/api/v1/admin/{path}", given, content, client)

    def get(self, path: str) -> Any:
        given = {name: each for name, each in (("cookie", self.cookie), ("x-famulus-token", self.token)) if each}
        return self.port.get(f"/api/v1/admin/{path}", given)

    def log_in(self, name: str = "ann", password: str = PASSWORD) -> httpx.Response:
        answer = self.post("login", {"name": name, "password": password})
        if answer.status_code == 200:
            self.cookie = answer.headers["set-cookie"].partition(";")[0]
            self.token = answer.json()["token"]
        return answer

    def plan(self, path: str, **wish: Any) -> Any:
        answer = self.post(path, {**wish, "dry_run": True})
        assert answer.status_code == 200, answer.text
        return answer.json()["plan"]

    def done(self, path: str, **wish: Any) -> Any:
        answer = self.post(path, wish)
        assert answer.status_code == 200, answer.text
        return answer.json()["done"]


@pytest.fixture
def desk(networks: Callable[..., Network]) -> Desk:
    """b1 and b2 of family a, whose admin is ann, and b3 of family b, whose admin is ben."""
    network = networks("b1", "b2", "b3", b3="b")
    network["b1"].edits("admin/b/ben", {"hash": hashed("bens own")})
    network.later(2000)
    return Desk(network)


@pytest.fixture
def steward(desk: Desk, tmp_path: Path) -> Iterator[StewardSocket]:
    socket = StewardSocket(desk, f"ipc://{tmp_path}/admins")
    yield socket
    socket.close()


@pytest.fixture
def port(steward: StewardSocket, clock: Clock, tables: Path) -> Port:
    opened = Port(HERE, steward.address, clock, tables)
    opened.tell(supervisor(network=True))
    return opened


@pytest.fixture
def stranger(port: Port) -> Visitor:
    return Visitor(port)


@pytest.fixture
def ann(port: Port) -> Visitor:
    visitor = Visitor(port)
    assert visitor.log_in().status_code == 200
    return visitor


# -- logging in -----------------------------------------------------------------------------------------------------


def test_a_login_gives_a_cookie_that_no_script_can_read(stranger: Visitor) -> None:
    assert stranger.get("session").json() == {"offered": True, "why": "", "admin": None}
    answer = stranger.log_in()
    assert answer.json().keys() == {"admin", "token", "left_s", "idle_s", "lifetime_s"}
    name, *flags = answer.headers["set-cookie"].split("; ")
    assert name.startswith("famulus-7104=")
    assert len(name.partition("=")[2]) == 43, "256 bits"
    assert {flag.lower() for flag in flags} == {"httponly", "path=/", "samesite=strict"}
    assert answer.headers["cache-control"] == "no-store"
    told = stranger.get("session").json()
    assert (told["admin"], told["left_s"]) == ("ann", IDLE_NS // NS_PER_S)


def test_each_login_has_new_secrets_and_ends_the_one_before(ann: Visitor) -> None:
    cookie, token = ann.cookie, ann.token
    ann.log_in()
    assert cookie != ann.cookie
    assert token != ann.token
    assert ann.post("logout", cookie=cookie, x_famulus_token=token).status_code == 401
    assert ann.get("config").status_code == 200


def test_wrong_passwords_are_the_stewards_affair(stranger: Visitor, desk: Desk) -> None:
    answer = stranger.log_in(password="wrong")
    assert (answer.status_code, answer.json()) == (403, {"error": "not_allowed: wrong name or password"})
    assert "set-cookie" not in answer.headers
    assert stranger.log_in().json()["error"].startswith("not_allowed: too many wrong passwords; try again in")
    desk.network.now_ns += 2 * NS_PER_S
    assert stranger.log_in().status_code == 200


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{",
        b'{"name":"ann"}',
        b'{"name":"","password":"x"}',
        b'{"name":"ann","password":""}',
        b'{"name":"ann","password":1}',
        b'{"name":"ann","password":"x","more":1}',
        b'{"name":"%s","password":"x"}' % (b"n" * 300),
        b"\xff\xfe",
        b"[" * 100_000,
    ],
)
def test_what_is_no_login_never_reaches_the_steward(stranger: Visitor, steward: StewardSocket, body: bytes) -> None:
    answer = stranger.post("login", body)
    assert (answer.status_code, list(answer.json())) == (400, ["error"])
    assert steward.asked == []


def test_a_body_is_bounded(stranger: Visitor, ann: Visitor) -> None:
    assert stranger.post("login", b" " * (BODY_BYTES_MAX + 1)).status_code == 413
    assert ann.post("set", b" " * (BODY_BYTES_MAX + 1)).status_code == 413


def test_who_stands_alone_has_no_admins(steward: StewardSocket) -> None:
    alone = Port(HERE)
    visitor = Visitor(alone)
    assert "has not said yet" in visitor.get("session").json()["why"]
    alone.tell(supervisor())
    told = visitor.get("session").json()
    assert (told["offered"], told["admin"]) == (False, None)
    assert "stands alone" in told["why"]
    answer = visitor.log_in()
    assert (answer.status_code, "stands alone" in answer.json()["error"]) == (409, True)
    assert steward.asked == []


# -- who is heard at all --------------------------------------------------------------------------------------------


def paths() -> list[str]:
    return ["login", "logout", "findings/apply", *ACTIONS]


@pytest.mark.parametrize("path", paths())
@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"origin": "http://evil.example"}, 403),
        ({"origin": None}, 403),
        ({"origin": "http://127.0.0.1:9999", "sec_fetch_site": "same-site"}, 403),
        ({"sec_fetch_site": "cross-site"}, 403),
        ({"content_type": "text/plain"}, 415),
        ({"host": "evil.example"}, 421),
    ],
)
def test_other_pages_change_nothing(
    ann: Visitor, steward: StewardSocket, path: str, headers: dict[str, Any], code: int
) -> None:
    """Not even with both secrets."""
    asked = len(steward.asked)
    assert ann.post(path, {"identity": "b2"}, **headers).status_code == code
    assert len(steward.asked) == asked


@pytest.mark.parametrize("path", paths()[1:])
def test_every_action_needs_the_token_and_the_cookie(ann: Visitor, steward: StewardSocket, path: str) -> None:
    asked = len(steward.asked)
    assert ann.post(path, x_famulus_token=None).status_code == 403
    assert ann.post(path, x_famulus_token="x" * 43).status_code == 401
    assert ann.post(path, cookie=None).status_code == 401
    assert ann.post(path, cookie="famulus-9999=" + ann.cookie.partition("=")[2]).status_code == 401
    assert len(steward.asked) == asked


@pytest.mark.parametrize("path", paths())
def test_no_action_is_done_by_looking(ann: Visitor, path: str) -> None:
    assert ann.get(path).status_code in (404, 405)
    for method in ("PUT", "DELETE", "PATCH", "OPTIONS"):
        assert ann.port.ask(method, f"/api/v1/admin/{path}").status_code == 405


def test_the_config_of_admins_is_for_admins(ann: Visitor) -> None:
    assert Visitor(ann.port).get("config").status_code == 403
    ann.token = "x"
    assert ann.get("config").status_code == 401


def test_elsewhere_nobody_logs_in(steward: StewardSocket) -> None:
    """The port is bound to all addresses: whoever comes from elsewhere would send a password in the clear."""
    port = Port("0.0.0.0", steward.address)
    port.tell(supervisor(network=True))
    visitor = Visitor(port)
    answer = visitor.post("login", {"name": "ann", "password": PASSWORD}, client="10.0.0.9")
    assert (answer.status_code, answer.json()["error"]) == (403, admission.NOT_PRIVATE)
    told = port.ask("GET", "/api/v1/admin/session", client="10.0.0.9").json()
    assert told == {"offered": False, "why": admission.NOT_PRIVATE, "admin": None}
    assert steward.asked == []
    assert visitor.log_in().status_code == 200, "on the machine itself it is safe"


def test_over_tls_one_logs_in_from_anywhere(steward: StewardSocket) -> None:
    port = Port("0.0.0.0", steward.address, tls=True)
    port.tell(supervisor(network=True))
    told = port.ask("GET", "/api/v1/admin/session", client="10.0.0.9").json()
    assert told == {"offered": True, "why": "", "admin": None}
    wish = {"name": "ann", "password": PASSWORD}
    here = {"host": "b1.example:7104", "origin": "https://b1.example:7104"}
    visitor = Visitor(port)
    assert visitor.post("login", wish, client="10.0.0.9", host="b1.example:7104").status_code == 403, "another origin"
    answer = visitor.post("login", wish, client="10.0.0.9", **here)
    assert answer.status_code == 200
    name, *rules = answer.headers["set-cookie"].split("; ")
    assert {each.lower() for each in rules} == {"httponly", "path=/", "samesite=strict", "secure"}
    visitor.cookie, visitor.token = name, answer.json()["token"]
    answer = visitor.post("logout", client="10.0.0.9", **here)
    assert answer.status_code == 200
    assert "secure" in answer.headers["set-cookie"].lower()


def test_who_guesses_from_elsewhere_keeps_nobody_out_and_gets_slower(steward: StewardSocket, desk: Desk) -> None:
    desk.source = HTTP_PORT
    port = Port("0.0.0.0", steward.address, tls=True)
    port.tell(supervisor(network=True))
    visitor, here = Visitor(port), {"origin": f"https://{HERE}:7104"}
    wish = {"name": "ann", "password": PASSWORD}
    assert visitor.post("login", wish, client="10.0.0.8", **here).status_code == 200
    wrong = {"name": "ann", "password": "wrong"}
    assert visitor.post("login", wrong, client="10.0.0.9", **here).status_code == 403
    answer = visitor.post("login", wish, client="10.0.0.9", **here)
    assert answer.json()["error"] == "not_allowed: too many wrong passwords; try again in 1 s"
    assert visitor.post("login", wish, client="10.0.0.8", **here).status_code == 200


def test_a_browser_sends_the_cookie_of_a_plain_port_back(ann: Visitor) -> None:
    assert "secure" not in ann.log_in().headers["set-cookie"].lower()


# -- how long -------------------------------------------------------------------------------------------------------


def test_a_session_ends_when_it_is_not_used(ann: Visitor, clock: Clock) -> None:
    clock.now_ns += IDLE_NS - 1
    assert ann.get("config").status_code == 200, "which a page asks by itself"
    clock.now_ns += 1
    answer = ann.post("enable", {"identity": "b2"})
    assert (answer.status_code, answer.json()) == (401, {"error": "you are not logged in, or no longer"})
    assert ann.get("session").json()["admin"] is None


def test_logging_out_ends_it(ann: Visitor) -> None:
    answer = ann.post("logout")
    assert answer.status_code == 200
    assert "Max-Age=0" in answer.headers["set-cookie"]
    assert ann.post("enable", {"identity": "b2"}).status_code == 401


def test_a_session_ends_with_the_password_that_opened_it(ann: Visitor, desk: Desk) -> None:
    desk.member.edits("admin/a/ann", {"hash": hashed("another one")})
    answer = ann.post("drain", {"identity": "b2"})
    assert (answer.status_code, answer.json()["error"]) == (401, "not_allowed: wrong name or password")
    assert ann.get("session").json()["admin"] is None


def test_who_guesses_passwords_neither_throws_anybody_out_nor_makes_it_wait(ann: Visitor, stranger: Visitor) -> None:
    stranger.log_in(password="wrong")
    assert ann.post("drain", {"identity": "b2"}).status_code == 200


# -- floods ---------------------------------------------------------------------------------------------------------


def test_a_flood_of_logins_is_cut_short_and_pages_are_served(
    port: Port, steward: StewardSocket, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(office, "ANSWER_S", 1.0)
    steward.deaf.set()
    body = msgspec.json.encode({"name": "nobody", "password": "x"})

    async def flood() -> tuple[list[int], float]:
        transport = httpx.ASGITransport(port.app)
        async with httpx.AsyncClient(transport=transport, base_url=ORIGIN) as client:
            logins = [
                asyncio.ensure_future(client.post("/api/v1/admin/login", content=body, headers=PAGE)) for _ in range(50)
            ]
            await asyncio.sleep(0)
            began = time.monotonic()
            for _ in range(20):
                assert (await client.get("/healthz")).status_code == 200
            took_s = time.monotonic() - began
            return [answer.status_code for answer in await asyncio.gather(*logins)], took_s

    codes, took_s = asyncio.run(flood())
    assert codes == [503] * 50, "the steward is deaf, and the others were not even tried"
    assert took_s < 0.9, "no page waits for a login"
    steward.deaf.clear()
    clock.now_ns += 10 * NS_PER_S
    assert Visitor(port).log_in().status_code == 200, "places are free again"
    assert len(steward.asked) <= office.LOGINS_AT_ONCE + 1


def test_logins_in_a_row_have_to_keep_their_distance(stranger: Visitor, clock: Clock) -> None:
    codes = [stranger.log_in(f"nobody-{number}").status_code for number in range(office.LOGINS_IN_A_ROW + 1)]
    assert codes == [403] * office.LOGINS_IN_A_ROW + [503]
    assert stranger.log_in().headers["retry-after"] == "1"
    clock.now_ns += office.LOGIN_DISTANCE_NS
    assert stranger.log_in().status_code == 200


def test_a_machine_without_threads_is_busy(ann: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", fail)
        codes = [ann.post("drain", {"identity": "b2"}).status_code for _ in range(2 * office.ACTIONS_AT_ONCE)]
    assert set(codes) == {503}
    assert ann.post("drain", {"identity": "b2"}).status_code == 200, "all places are free"


def test_a_steward_that_is_gone_is_said_so(ann: Visitor, steward: StewardSocket, monkeypatch: Any) -> None:
    monkeypatch.setattr(office, "CONNECT_S", 0.2)
    monkeypatch.setattr(office, "ANSWER_S", 0.2)
    steward.deaf.set()
    answer = ann.post("drain", {"identity": "b2"})
    assert answer.status_code == 503
    said = "the steward of this broker does not answer; what was asked for may have been done: check it"
    assert answer.json() == {"error": said}
    steward.close()
    answer = ann.post("drain", {"identity": "b2"})
    assert (answer.status_code, answer.json()["error"]) == (503, "the steward of this broker does not answer")
    assert ann.get("session").json()["admin"] == "ann", "it may come back"


# -- secrets --------------------------------------------------------------------------------------------------------


def test_no_secret_is_logged_or_told(stranger: Visitor, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    answers = [
        stranger.log_in(password="wrong-but-secret"),
        stranger.post("login", b'{"name":"ann","password":"broken-but-secret'),
        stranger.post("login", {"name": "ann", "password": ["secret-list"]}),
        stranger.log_in("ben", "bens own"),
        stranger.get("config"),
        stranger.post("set", {"key": "admin/b/ben", "value": {"hash": "x"}}),
    ]
    told = caplog.text + "".join(answer.text for answer in answers)
    for secret in ("wrong-but-secret", "broken-but-secret", "secret-list", "bens own", "hash-of"):
        assert secret not in told
    assert "'ben' logged in" in caplog.text
    assert stranger.token not in caplog.text
    assert answers[-1].status_code == 400


# -- actions --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("path", "state"), [("drain", "draining"), ("disable", "disabled")])
def test_a_state_is_planned_then_made(ann: Visitor, desk: Desk, path: str, state: str) -> None:
    ann.done("enable", identity="b2")
    version = desk.member.core.edits.version
    plan = ann.plan(path, identity="b2")
    assert plan["changes"] == [
        {
            "key": "broker_state/b2",
            "op": "PUT",
            "difference": [{"field": "state", "seen": "active", "now": state}],
        }
    ]
    assert plan["note"].startswith("b2 will take no")
    assert desk.member.core.edits.version == version, "nothing was done"
    done = ann.done(path, identity="b2", heads=plan["heads"])
    assert (done["sentence"], done["seen"], done["brokers"]) == ("accepted, seen by 1 of 3 brokers", 1, 3)
    assert desk.member.core.config.broker_states["b2"] == state
    assert ann.plan(path, identity="b2")["needed"] is False
    assert ann.done(path, identity="b2")["edits"] == []
    ann.done("enable", identity="b2")
    assert desk.member.core.config.broker_states["b2"] == "active"


def test_who_was_slower_sees_what_has_changed(ann: Visitor, desk: Desk) -> None:
    ann.done("enable", identity="b2")
    plan = ann.plan("drain", identity="b2")
    desk.member.edits("broker_state/b2", {"state": "disabled"})
    answer = ann.post("drain", {"identity": "b2", "heads": plan["heads"]})
    assert answer.status_code == 409
    (moved,) = answer.json()["moved"]
    assert (moved["key"], moved["difference"]) == (
        "broker_state/b2",
        [{"field": "state", "seen": "active", "now": "disabled"}],
    )
    assert desk.member.core.config.broker_states["b2"] == "disabled"


def test_what_is_another_familys_is_refused_before_anybody_confirms(ann: Visitor) -> None:
    answer = ann.post("drain", {"identity": "b3", "dry_run": True})
    assert (answer.status_code, "of which you are not an admin" in answer.json()["error"]) == (403, True)
    assert ann.get("session").json()["admin"] == "ann"


def test_a_broker_that_nobody_knows(ann: Visitor) -> None:
    answer = ann.post("drain", {"identity": "b9"})
    assert (answer.status_code, answer.json()) == (400, {"error": "there is no broker 'b9'; there is b1, b2, b3"})


def test_only_who_is_gone_is_forgotten(ann: Visitor, desk: Desk) -> None:
    answer = ann.post("forget", {"identity": "b2"})
    assert (answer.status_code, answer.json()) == (400, {"error": "b2 is alive: stop it first"})
    desk.network.now_ns += 60 * NS_PER_S
    plan = ann.plan("forget", identity="b2")
    assert [each["key"] for each in plan["changes"]] == ["broker/b2"]
    assert "revoked" in plan["note"]
    ann.done("forget", identity="b2", heads=plan["heads"])
    assert "b2" not in desk.member.core.config.brokers


def test_a_key_is_set_on_what_the_page_showed(ann: Visitor, desk: Desk) -> None:
    ann.done("set", key="service/echo", value={"timeout_ms": 5})
    shown = ann.get("config?prefix=service/").json()["keys"]["service/echo"]
    heads = {"service/echo": [head["id"] for head in shown["heads"]]}
    plan = ann.plan("set", key="service/echo", value={"timeout_ms": 9, "colour": "red"}, heads=heads)
    assert plan["heads"] == heads
    assert [(each["field"], each["now"]) for each in plan["changes"][0]["difference"]] == [
        ("colour", "red"),
        ("timeout_ms", 9),
    ]
    assert "colour" in plan["warnings"][0]["sentence"]
    assert ann.plan("set", key="service/echo", value={"timeout_ms": 5}, heads=heads)["needed"] is False
    desk.member.edits("service/echo", {"timeout_ms": 7})
    wish = {"key": "service/echo", "value": {"timeout_ms": 9}, "heads": heads}
    assert [ann.post("set", {**wish, "dry_run": dry}).status_code for dry in (True, False)] == [409, 409]
    assert ann.post("unset", {"key": "service/echo", "heads": heads}).status_code == 409
    assert desk.member.core.config.services["echo"].timeout_ms == 7
    ann.done("unset", key="service/echo")
    assert "echo" not in desk.member.core.config.services


def test_what_brokers_would_ignore_is_not_sent(ann: Visitor, desk: Desk) -> None:
    version = desk.member.core.edits.version
    assert ann.plan("set", key="service/echo", value="quick")["ignored"] == ["service/echo"]
    answer = ann.post("set", {"key": "service/echo", "value": "quick"})
    assert (answer.status_code, answer.json()["error"]) == (
        400,
        "nothing was sent, since brokers would ignore service/echo",
    )
    assert desk.member.core.edits.version == version


@pytest.mark.parametrize("path", ["set", "unset", "resolve"])
def test_admins_are_changed_elsewhere(ann: Visitor, path: str) -> None:
    body = {"key": "admin/a/ann", **({"value": {"hash": "x"}} if path != "unset" else {})}
    answer = ann.post(path, body)
    assert (answer.status_code, "famulus admins" in answer.json()["error"]) == (400, True)


def conflict(desk: Desk) -> list[str]:
    """Two brokers took an edit of one key before they heard of each other's."""
    network = desk.network
    network.cut.add(frozenset({"b1", "b2"}))
    network.cut.add(frozenset({"b2", "b3"}))
    network["b1"].edits("service/echo", {"timeout_ms": 1})
    network["b2"].edits("service/echo", {"timeout_ms": 2})
    network.cut.clear()
    network.later(3000)
    heads = [signed.id for signed in desk.member.core.edits.heads("service/echo")]
    assert len(heads) == 2
    return heads


def test_a_conflict_ends_by_choosing_a_head(ann: Visitor, desk: Desk) -> None:
    heads = conflict(desk)
    for each in heads:
        plan = ann.plan("resolve", key="service/echo", choose=each, heads={"service/echo": heads})
        assert plan["changes"][0]["ends_conflict_of"] == 2
    ann.done("resolve", key="service/echo", choose=heads[0], heads={"service/echo": heads})
    assert desk.member.core.config.conflicts == ()
    answer = ann.post("resolve", {"key": "service/echo", "choose": heads[1], "heads": {"service/echo": heads}})
    assert answer.status_code == 409, "somebody has chosen already"
    assert ann.post("resolve", {"key": "service/echo", "choose": heads[1]}).status_code == 400


def test_a_conflict_ends_by_another_value(ann: Visitor, desk: Desk) -> None:
    conflict(desk)
    ann.done("resolve", key="service/echo", value={"timeout_ms": 3})
    assert desk.member.core.config.services["echo"].timeout_ms == 3
    for wish in ({"value": {"timeout_ms": 4}}, {}, {"choose": "abcdef", "value": {}}):
        assert ann.post("resolve", {"key": "service/echo", **wish}).status_code == 400


def test_a_worker_is_forgiven(ann: Visitor, desk: Desk) -> None:
    assert ann.post("errors/clear", {"identity": "w1"}).json() == {"error": "w1 is not ignored here"}
    desk.ignored.append({"identity": "w1", "faults": 3, "ignored_s": 9})
    ann.done("set", key="family/a", value={"error_workers": ["w1", "w2"]})
    note = ann.plan("errors/clear", identity="w1")["note"]
    assert note.endswith("it may connect again at once. It is taken off the list of family/a.")
    assert ann.done("errors/clear", identity="w1")["sentence"] == "w1 is forgiven"
    assert desk.member.core.config.families["a"].error_workers == ("w2",)


# -- findings -------------------------------------------------------------------------------------------------------


def shown_finding(port: Port, number: int = 0) -> dict[str, Any]:
    """As a page sees it, and what it sends of it."""
    found: dict[str, Any] = port.get("/api/v1/findings").json()["findings"][number]
    return {"id": found["id"], "digest": found["digest"]}


def test_a_finding_is_applied_to_the_fields_that_it_names(ann: Visitor, port: Port, desk: Desk, tables: Path) -> None:
    write(tables, finding(1))
    desk.member.edits("service/echo", {"timeout_ms": 1000, "backlog_tasks_max": 10})
    wish = shown_finding(port)
    version = desk.member.core.edits.version
    plan = ann.plan("findings/apply", **wish)
    assert plan["changes"] == [
        {
            "key": "service/echo",
            "op": "PUT",
            "difference": [{"field": "backlog_tasks_max", "seen": 10, "now": 5000}],
        }
    ]
    assert plan["note"] == "12 % were rejected"
    assert desk.member.core.edits.version == version, "nothing was done"
    assert ann.done("findings/apply", **wish, heads=plan["heads"])["seen"] == 1
    service = desk.member.core.config.services["echo"]
    assert (service.timeout_ms, service.backlog_tasks_max) == (1000, 5000)
    assert ann.plan("findings/apply", **wish)["needed"] is False


def test_a_finding_is_not_applied_to_what_nobody_saw(
    ann: Visitor, port: Port, desk: Desk, tables: Path, clock: Clock
) -> None:
    write(tables, finding(1))
    wish = shown_finding(port)
    plan = ann.plan("findings/apply", **wish)
    desk.member.edits("service/echo", {"timeout_ms": 7})
    answer = ann.post("findings/apply", {**wish, "heads": plan["heads"]})
    assert (answer.status_code, [each["key"] for each in answer.json()["moved"]]) == (409, ["service/echo"])
    write(tables, finding(1, value='{"backlog_tasks_max":1}'))
    clock.now_ns += 2 * NS_PER_S
    answer = ann.post("findings/apply", wish)
    assert (answer.status_code, "something else since you looked" in answer.json()["error"]) == (409, True)
    write(tables)
    clock.now_ns += 2 * NS_PER_S
    answer = ann.post("findings/apply", wish)
    assert (answer.status_code, "no such finding any more" in answer.json()["error"]) == (400, True)
    assert desk.member.core.config.services["echo"].backlog_tasks_max == 10_000


@pytest.mark.parametrize(
    "body",
    [
        {"id": "id1", "key": "service/echo"},
        {"id": "id1", "value": {"backlog_tasks_max": 1}},
        {"id": ""},
        {"id": "x" * 300},
        {"id": "nobody"},
        {"id": "1"},
        {"id": "id2"},
        {"id": "id3"},
        {},
    ],
)
def test_a_page_says_only_which_finding_it_means(ann: Visitor, desk: Desk, tables: Path, body: dict[str, Any]) -> None:
    secret = finding(3, key="admin/a/ann", value='{"hash":"x"}')
    write(tables, finding(1), finding(2, value=None), secret)
    version = desk.member.core.edits.version
    assert ann.post("findings/apply", body).status_code == 400
    assert desk.member.core.edits.version == version


def test_what_is_another_familys_cannot_be_applied(ann: Visitor, tables: Path) -> None:
    write(tables, finding(1, key="broker_state/b3", value='{"state":"draining"}'))
    answer = ann.post("findings/apply", {"id": "id1", "dry_run": True})
    assert (answer.status_code, "of which you are not an admin" in answer.json()["error"]) == (403, True)


def test_who_is_not_logged_in_applies_nothing(stranger: Visitor, tables: Path) -> None:
    write(tables, finding(1))
    assert stranger.post("findings/apply", {"id": "id1"}).status_code == 403
    assert stranger.post("findings/apply", {"id": "id1"}, x_famulus_token="x").status_code == 401


def test_names_with_anything_in_them(ann: Visitor) -> None:
    answer = ann.post("drain", {"identity": "{0}<b>{}\u2028\x00"})
    assert answer.status_code == 400
    assert ann.post("drain", {"identity": "x" * 300}).status_code == 400
    assert ann.post("drain", {"identity": "b2", "more": 1}).status_code == 400
    assert ann.post("drain", {"identity": "b2", "heads": {"broker_state/b2": ["nonsense"]}}).status_code in (400, 409)
