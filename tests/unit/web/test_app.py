"""What each address answers, and what it never does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from tests.unit.web.conftest import Port
from tests.unit.web.status.conftest import dispatcher, peer, service, steward, supervisor, worker

from famulus.broker.settings import Settings
from famulus.core.dispatch.bounds import Bounds
from famulus.web import events
from famulus.web.guard import HEADERS
from famulus.web.herald import shown
from famulus.web.status import views
from famulus.wire import status

ADDRESSES = [
    "/",
    "/healthz",
    "/readyz",
    "/metrics",
    "/api/v1/status",
    "/api/v1/services",
    "/api/v1/services/echo",
    "/api/v1/workers",
    "/api/v1/brokers",
    "/api/v1/config",
    "/api/v1/conflicts",
    "/api/v1/errors",
    "/api/v1/history",
    "/api/v1/findings",
    "/api/v1/workers/w1",
    "/api/v1/tasks",
    "/api/v1/failures",
]
HOSTILE = '"><img src=x onerror=alert(1)>\u2028</script>'


def filled(port: Port, **facts: Any) -> Port:
    port.tell(supervisor(), dispatcher(1, services=(service(ok=5),), workers=(worker(),), **facts))
    return port


@pytest.mark.parametrize("address", ADDRESSES)
def test_every_address_answers_with_headers_that_bind_the_browser(port: Port, address: str) -> None:
    answer = filled(port).get(address)
    assert answer.status_code == 200
    for name, value in HEADERS:
        assert answer.headers[name.decode()] == value.decode()
    assert "unsafe" not in answer.headers["content-security-policy"]
    assert "set-cookie" not in answer.headers
    assert "server" not in answer.headers


@pytest.mark.parametrize("address", ADDRESSES)
def test_every_address_answers_before_anybody_said_anything(port: Port, address: str) -> None:
    assert port.get(address).status_code in (200, 404, 503)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_nothing_can_be_changed_but_by_admins(port: Port, method: str) -> None:
    for address in (*ADDRESSES, "/api/v1/events", "/api/v1/admin", "/api/v1/administer"):
        answer = port.ask(method, address)
        assert (answer.status_code, answer.text) == (405, "this can only be read\n")
    told = port.ask(method, "/api/v1/admin/login")
    assert told.status_code == (403 if method == "POST" else 405)
    assert (told.text == "this can only be read\n") == (method != "POST")


@pytest.mark.parametrize(
    ("host", "code"),
    [
        ("localhost:7104", 200),
        ("127.0.0.1", 200),
        ("[::1]:7104", 200),
        ("LocalHost", 200),
        ("evil.example:7104", 421),
        ("localhost.evil.example", 421),
        ("127.0.0.1.evil.example", 421),
        ("", 421),
    ],
)
def test_on_loopback_only_our_own_names_are_answered(port: Port, host: str, code: int) -> None:
    assert port.get("/healthz", headers={"host": host}).status_code == code


def test_elsewhere_any_name_may_be_ours(port_at: Callable[[str], Port]) -> None:
    assert port_at("0.0.0.0").get("/healthz", headers={"host": "broker.example"}).status_code == 200


def test_with_tls_the_certificate_says_which_names_are_ours() -> None:
    assert Port("127.0.0.1", tls=True).get("/healthz", headers={"host": "broker.example"}).status_code == 200


def test_long_addresses_are_refused(port: Port) -> None:
    assert port.get("/api/v1/services/" + "x" * 3000).status_code == 414


def test_readiness_gives_reasons(port: Port) -> None:
    answer = port.get("/readyz")
    assert (answer.status_code, answer.json()) == (503, {"ready": False, "reasons": ["the dispatcher is silent"]})
    assert filled(port).get("/readyz").json() == {"ready": True, "reasons": []}


def test_the_status_is_what_the_struct_says(port: Port) -> None:
    answer = filled(port).get("/api/v1/status")
    told = msgspec.json.decode(answer.content, type=views.Status, strict=True)
    assert (told.identity, told.services[0].ok, told.workers[0].identity) == ("b1", 5, "w1")


def test_a_service_has_its_workers_and_its_past(port: Port) -> None:
    port.tell(dispatcher(0, services=(service(ok=2),)))
    told = filled(port).get("/api/v1/services/echo").json()
    assert told["service"]["name"] == "echo"
    assert [each["identity"] for each in told["workers"]] == ["w1"]
    assert [point[1] for point in told["seconds"]] == [3.0]
    assert port.get("/api/v1/services/nobody").status_code == 404


def test_a_worker_has_its_past_also_when_it_is_gone(port: Port) -> None:
    port.tell(dispatcher(0, workers=(worker(slots=4, free=1),)))
    told = filled(port).get("/api/v1/workers/w1").json()
    assert (told["worker"]["identity"], told["worker"]["slots"]) == ("w1", 4)
    assert [busy for _, busy in told["seconds"]] == [3, 0]
    port.tell(dispatcher(2))
    told = port.get("/api/v1/workers/w1").json()
    assert (told["worker"], len(told["seconds"])) == (None, 2)
    assert port.get("/api/v1/workers/nobody").status_code == 404


@pytest.mark.parametrize("name", [HOSTILE, "a/b", "a b", "ü☕", "..", "%2e%2e/x", "?a=b#c"])
def test_whatever_a_service_is_called_it_can_be_asked_for(port: Port, name: str) -> None:
    from urllib.parse import quote

    port.tell(supervisor(), dispatcher(1, services=(service(name),), workers=(worker(HOSTILE, services=(name,)),)))
    told = port.get("/api/v1/services/" + quote(name, safe="").replace(".", "%2E"))
    assert told.status_code == 200
    assert told.headers["content-type"] == "application/json"
    assert told.json()["service"]["name"] == name
    told = port.get("/api/v1/workers/" + quote(HOSTILE, safe=""))
    assert told.json()["worker"]["identity"] == HOSTILE


def test_the_config_shows_no_admin_and_no_hash(port: Port) -> None:
    alone: dict[str, Any] = {"network": False, "config": None, "history": [], "settings": None}
    assert port.get("/api/v1/config").json() == alone
    view = {"services": {"echo": {"timeout_ms": 5}}, "conflicts": [{"key": "service/echo"}], "warnings": []}
    port.api._kept.clear()
    config = status.Config(3, "d3", json.dumps(view).encode(), b'[{"key":"service/echo"}]', 2)
    port.tell(config, steward(peer("b2")))
    assert port.get("/api/v1/config").json() == {"network": True, "config": view, "history": [{"key": "service/echo"}]}
    assert port.get("/api/v1/conflicts").json()["total"] == 2
    assert [each["identity"] for each in port.get("/api/v1/brokers").json()["brokers"]][1:] == ["b2"]


def test_a_broker_that_stands_alone_shows_its_settings_but_not_where_its_key_is() -> None:
    told = shown(Settings(identity="vienna", http_key="/etc/secret.key", http_certificate="/etc/secret.crt"))
    assert (told["identity"], told["bounds"]["open_tasks_max"]) == ("vienna", Bounds().open_tasks_max)
    assert "secret" not in json.dumps(told)


def test_what_is_not_there_is_said_so(port: Port) -> None:
    assert port.get("/api/v1/nothing").json() == {"error": "there is nothing at this address"}
    assert port.get("/static/../herald.py").status_code == 404
    assert port.get("/static/%2e%2e%2fherald.py").status_code == 404


def test_an_answer_is_made_once_for_many(port: Port) -> None:
    made: list[int] = []

    def make() -> object:
        made.append(1)
        return {"a": 1}

    assert {port.api.answer("x", make) for _ in range(50)} == {b'{"a":1}'}
    assert len(made) == 1


# -- events -------------------------------------------------------------------------------------------------------


def test_one_event_is_made_for_all_and_who_is_slow_is_let_go(port: Port) -> None:
    async def story() -> None:
        filled(port)
        quick, slow = port.events.welcome(), port.events.welcome()
        assert quick is not None
        assert slow is not None
        for second in range(10):
            port.events.tell(second, second)
            while not quick.waiting.empty():
                last = quick.waiting.get_nowait()
        assert not quick.dropped
        assert slow.dropped, "it took nothing"
        assert slow.waiting.qsize() == events.WAITING_MAX
        assert last is not None
        assert last.startswith(b"id: 11\nevent: status\ndata: {")
        assert last.count(b"\n") == 4, "one line of data, whatever names are in it"

    asyncio.run(story())


def test_there_are_only_so_many_viewers(port: Port) -> None:
    viewers = [port.events.welcome() for _ in range(events.VIEWERS_MAX + 1)]
    assert viewers[-1] is None
    assert port.get("/api/v1/events").status_code == 503


def test_an_event_is_bounded(port: Port) -> None:
    async def story() -> None:
        services = tuple(service(f"s{number}", busy=number) for number in range(1000))
        port.tell(supervisor(), dispatcher(1, services=services, workers=(worker(),) * 1000))
        viewer = port.events.welcome()
        assert viewer is not None
        event = viewer.waiting.get_nowait()
        assert event is not None
        told = msgspec.json.decode(event.partition(b"data: ")[2], type=views.Status)
        assert (len(told.services), told.services_total) == (events.EVENT_SERVICES_MAX, 1000)
        assert told.services[-1].name == "s999", "the busiest are shown"

    asyncio.run(story())
