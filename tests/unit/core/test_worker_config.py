"""What a worker is told of brokers, from a broker or from a file: what cannot be is left out."""

from __future__ import annotations

import json
from typing import Any

import pytest

from famulus.core.routing.book import Book, BrokerAddress
from famulus.core.session.worker_config import BODY_BYTES_MAX, BROKERS_MAX, WorkerConfig, read_brokers, read_config


def body(*backends: str, **more: Any) -> bytes:
    brokers = [{"identity": f"b{number}", "backend": backend} for number, backend in enumerate(backends)]
    return json.dumps({"family_config": {"name": "ours", "brokers": brokers}, "brokers": brokers, **more}).encode()


def test_a_broker_writes_what_a_worker_reads() -> None:
    book = Book(BrokerAddress("b1", "ours", "tcp://b1.example:7100", "tcp://b1.example:7101"), 1000)
    assert read_config(book.worker_config("w", ["echo"])) == WorkerConfig(
        "ours", ("tcp://b1.example:7101",), "tcp://b1.example:7101"
    )
    assert read_brokers(book.brokers()) == ("tcp://b1.example:7101",)


def test_a_worker_reads_where_its_family_falls_back_to() -> None:
    first, *others = (
        BrokerAddress(f"b{number}", family, f"tcp://b{number}:7100", f"tcp://b{number}:7101")
        for number, family in enumerate(["ours", "spare", "spare", "last"])
    )
    told = read_config(Book(first, 1000, fallback=tuple(others)).worker_config("w", ["echo"]))
    assert told is not None
    assert told.fallback == (("tcp://b1:7101", "tcp://b2:7101"), ("tcp://b3:7101",))


def test_the_order_is_kept_and_the_preferred_one_is_found_by_its_name() -> None:
    told = body("tcp://b:1", "tcp://[::1]:2", "ipc:///run/b3", preferred_broker="b1")
    addresses = ("tcp://b:1", "tcp://[::1]:2", "ipc:///run/b3")
    assert read_config(told) == WorkerConfig("ours", addresses, "tcp://[::1]:2")
    assert read_brokers(told) == addresses


def test_a_preferred_one_that_is_not_there_is_none() -> None:
    told = read_config(body("tcp://b:1", preferred_broker="somebody"))
    assert told is not None
    assert told.preferred == ""


@pytest.mark.parametrize(
    "address",
    [
        "",
        "b:1",
        "tcp://b",
        "tcp://b:0",
        "tcp://b:65536",
        "tcp://b:7101 ",
        "tcp://b c:1",
        "tcp://b\x00:1",
        "ipc:///run/\x07",
        "inproc://here",
        # What a broker listens on; for us that would be our own machine.
        "tcp://0.0.0.0:7101",
        "tcp://[::]:7101",
        "tcp://*:7101",
    ],
)
def test_an_address_that_leads_nowhere_is_left_out(address: str) -> None:
    told = body(address, "tcp://b:1", preferred_broker="b0")
    assert read_config(told) == WorkerConfig("ours", ("tcp://b:1",), "")
    assert read_brokers(told) == ("tcp://b:1",)


@pytest.mark.parametrize(
    "rubbish",
    [
        b"",
        b"config",
        b"[]",
        b"{}",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"family_config":null,"brokers":null}',
        b'{"family_config":{"name":"ours"}}',
        b'{"family_config":{"name":"ours","brokers":[5]},"brokers":["tcp://b:1"]}',
        b'{"family_config":{"name":"ours","brokers":[]},"preferred_broker":5,"brokers":5}',
        body("tcp://b:1", padding="x" * BODY_BYTES_MAX),
    ],
)
def test_what_is_something_else_is_nothing(rubbish: bytes) -> None:
    assert read_config(rubbish) is None
    assert read_brokers(rubbish) == ()


def test_a_long_list_is_cut() -> None:
    told = read_config(body(*(f"tcp://b:{port}" for port in range(1, 1000))))
    assert told is not None
    assert len(told.brokers) == BROKERS_MAX


def addresses(*identities: str) -> list[BrokerAddress]:
    return [BrokerAddress(each, "ours", f"tcp://{each}:7100", f"tcp://{each}:7101") for each in identities]


@pytest.mark.parametrize(
    ("worker", "services", "preferred", "by_admin"),
    [
        ("w1", ["echo"], "b2", True),
        ("w1", ["sum"], "b2", True),
        ("w2", ["echo"], "b1", False),
        ("w2", ["echo", "sum"], "b3", True),
        # Of another family, or not there: as if nobody had said anything.
        ("w3", ["echo"], "b1", False),
        ("w3", ["sum"], "b3", True),
    ],
)
def test_an_admin_can_say_which_broker_a_worker_prefers(
    worker: str, services: list[str], preferred: str, by_admin: bool
) -> None:
    here, *family = addresses("b1", "b2", "b3")
    book = Book(
        here,
        1000,
        family=tuple(family),
        preferred_of_workers={"w1": "b2", "w3": "elsewhere"},
        preferred_of_services={"sum": "b3"},
    )
    told = json.loads(book.worker_config(worker, services))
    assert (told["preferred_broker"], told["preferred_by_admin"]) == (preferred, by_admin)
    read = read_config(book.worker_config(worker, services))
    assert read is not None
    assert (read.preferred, read.by_admin) == (f"tcp://{preferred}:7101", by_admin)


def test_workers_hear_of_another_preference_by_the_digest() -> None:
    (here,) = addresses("b1")
    digests = {
        Book(here, 1000).digest(),
        Book(here, 1000, preferred_of_workers={"w": "b1"}).digest(),
        Book(here, 1000, preferred_of_services={"w": "b1"}).digest(),
    }
    assert len(digests) == 3


def test_a_broker_tells_its_own_load() -> None:
    (here,) = addresses("b1")
    (told,) = json.loads(Book(here, 1000).brokers((), 0.75))["brokers"]
    assert told["load"] == 0.75
