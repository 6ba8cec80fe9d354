"""A broker that is for some services only: which tasks and workers it takes, and whom it names instead."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from famulus.core.routing.book import Book, BrokerAddress
from famulus.core.routing.router import Router
from famulus.wire import headers, inner, reasons

HERE = BrokerAddress("b1", "a", "tcp://b1:7100", "tcp://b1:7101", ("echo", "resize"))
ALL = BrokerAddress("b2", "a", "tcp://b2:7100", "tcp://b2:7101")
SUMS = BrokerAddress("b3", "a", "tcp://b3:7100", "tcp://b3:7101", ("sum",))
BOOK = Book(HERE, 1000, family=(ALL, SUMS), others=(SUMS, replace(ALL, load=0.5)))


def decide(origin: bytes, request: str, book: Book = BOOK, **fields: Any) -> list[bytes]:
    header = headers.write(request, "REQUEST", **fields)
    (decision,) = Router(book, lambda: "made").decide([[b"12345678", origin, b"", header]])
    return decision


def told(decision: list[bytes]) -> dict[str, Any]:
    assert decision[1] == inner.REPLY
    fields: dict[str, Any] = json.loads(decision[2])
    return fields


def test_a_task_of_its_services_is_accepted() -> None:
    assert decide(inner.FROM_CLIENT, "TASK", service="resize")[1] == inner.ACCEPT


def test_a_task_of_another_service_is_rejected_with_who_would_take_it() -> None:
    answer = told(decide(inner.FROM_CLIENT, "TASK", service="sum", message_id="m1"))
    assert (answer["request"], answer["outcome"], answer["message_id"]) == ("TASK", "REJECTED", "m1")
    assert answer["reason"] == "no_service: broker b1 does not serve 'sum'; b3, b2 would"


def test_where_nobody_would_the_reason_names_nobody() -> None:
    answer = told(decide(inner.FROM_CLIENT, "TASK", replace(BOOK, others=()), service="sum"))
    assert answer["reason"] == "no_service: broker b1 does not serve 'sum'"


@pytest.mark.parametrize("origin", [inner.FROM_STRANGER, inner.FROM_WORKER])
def test_a_worker_of_other_services_is_turned_away(origin: bytes) -> None:
    answer = told(decide(origin, "CONNECT", identity="w1", services=["sum"], slots=1))
    assert answer["request"] == "ERROR"
    assert answer["reason"] == "no_service: broker b1 does not serve 'sum'; b3, b2 would"
    several = told(decide(origin, "CONNECT", identity="w1", services=["sum", "product"], slots=1))
    assert several["reason"] == "no_service: broker b1 does not serve any of these services; b3, b2 would"


def test_a_worker_that_offers_one_of_them_is_taken() -> None:
    assert decide(inner.FROM_STRANGER, "CONNECT", identity="w1", services=["sum", "echo"], slots=1)[1] == inner.CONNECT


def test_a_worker_whose_services_were_taken_away_hears_it_when_it_asks() -> None:
    answer = told(decide(inner.FROM_WORKER, "CHECKCONFIG", identity="w1", services=["sum"]))
    assert reasons.code_of(answer["reason"]) == "no_service"


def test_a_worker_notices_that_its_broker_serves_others_now() -> None:
    assert BOOK.digest() != replace(BOOK, broker=replace(HERE, services=("echo",))).digest()


@pytest.mark.parametrize("origin", [inner.FROM_CLIENT, inner.FROM_STRANGER, inner.FROM_WORKER])
@pytest.mark.parametrize(
    ("services", "expected"),
    [
        ([], ["b1", "b3", "b2"]),
        (["sum"], ["b3", "b2"]),
        (["echo"], ["b1", "b2"]),
        (["other"], ["b2"]),
        (["echo", "sum"], ["b2", "b1", "b3"]),
    ],
)
def test_who_needs_a_broker_is_told_of_those_that_serve_it(
    origin: bytes, services: list[str], expected: list[str]
) -> None:
    answer = decide(origin, "NEEDBROKER", services=services)
    assert [each["identity"] for each in json.loads(answer[3])["brokers"]] == expected


def test_a_worker_is_told_of_the_brokers_of_its_family_that_serve_it() -> None:
    config = json.loads(BOOK.worker_config("w1", ["echo"]))
    assert config["family_config"]["brokers"] == [
        {"identity": "b1", "frontend": HERE.frontend, "backend": HERE.backend, "services": ["echo", "resize"]},
        {"identity": "b2", "frontend": ALL.frontend, "backend": ALL.backend, "services": "all"},
    ]
