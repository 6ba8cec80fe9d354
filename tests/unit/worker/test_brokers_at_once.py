"""A worker that serves several brokers at the same time, against brokers that a test plays by hand."""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.unit.worker.conftest import Broker, Run, family_of

from famulus.errors import BrokerUnreachable, IdentityTaken, SettingsError
from famulus.worker.place import shares
from famulus.worker.worker import Worker

#: Long enough that nobody pings in the middle of a test; loss is told by the connection then.
CALM_MS = 60_000


def echo_worker(*brokers: Broker, slots: int = 4, **settings: Any) -> Worker:
    worker = Worker(brokers=[broker.address for broker in brokers], at_once=True, slots=slots, **settings)
    worker.service("echo")(lambda body: body)
    return worker


def serves(broker: Broker, ticket: bytes, body: bytes = b"body") -> None:
    broker.give(ticket, "echo", body)
    assert broker.hear("TASK")[::2] == (ticket, body)


@pytest.mark.parametrize(
    ("slots", "places", "expected"), [(8, 2, [4, 4]), (5, 2, [3, 2]), (3, 3, [1, 1, 1]), (7, 1, [7])]
)
def test_slots_are_divided_and_none_is_promised_twice(slots: int, places: int, expected: list[int]) -> None:
    assert shares(slots, places) == expected


def test_both_are_served_under_one_name_and_each_has_its_share(broker: Broker, second: Broker, run: Run) -> None:
    running = run(echo_worker(broker, second, slots=5, identity="w1"))
    _, fields, _ = broker.hear("CONNECT")
    _, others, _ = second.hear("CONNECT")
    assert (fields["identity"], fields["slots"]) == ("w1", 3)
    assert (others["identity"], others["slots"]) == ("w1", 2)
    for each in (broker, second):
        each.tell("CONFIG", identity="w1", heartbeat_ms=CALM_MS, version=1, digest="d")
        each.hear("PING")
        each.tell("PONG", version=1, digest="d")
    # Tickets are unique at one broker only.
    broker.give(b"t1", "echo", b"of the first")
    second.give(b"t1", "echo", b"of the second")
    assert broker.hear("TASK")[::2] == (b"t1", b"of the first")
    assert second.hear("TASK")[::2] == (b"t1", b"of the second")
    running.worker.stop()
    broker.let_go()
    second.let_go()
    running.wait()
    assert running.result is True


def test_a_slow_function_is_answered_to_the_broker_that_asked(broker: Broker, second: Broker, run: Run) -> None:
    go = threading.Event()
    worker = Worker(brokers=[broker.address, second.address], at_once=True, slots=2)
    worker.service("echo")(lambda body: body)
    worker.service("slow")(lambda body: (go.wait(20), body)[1])
    run(worker)
    broker.welcome(CALM_MS)
    second.welcome(CALM_MS)
    broker.give(b"t1", "slow", b"slow")
    serves(second, b"t1")
    go.set()
    assert broker.hear("TASK")[::2] == (b"t1", b"slow")


def test_the_loss_of_one_does_not_disturb_the_other_and_it_is_tried_until_it_is_back(
    broker: Broker, second: Broker, run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    go = threading.Event()
    worker = echo_worker(broker, second)
    worker.service("slow")(lambda body: (go.wait(20), body)[1])
    with caplog.at_level(logging.INFO, "famulus.worker"):
        run(worker)
        broker.welcome(CALM_MS)
        second.welcome(CALM_MS)
        second.give(b"held", "slow", b"still here")
        broker.vanish()
        serves(second, b"t1")
        assert not second.heard("CONNECT"), "it stays with the brokers that it was given"
        broker.come_back()
        broker.welcome(CALM_MS)
        serves(broker, b"t2")
        go.set()
        assert second.hear("TASK")[::2] == (b"held", b"still here")
    assert f"lost the broker at {broker.address}" in caplog.text
    assert f"lost the broker at {second.address}" not in caplog.text


def test_what_a_broker_tells_of_its_family_leads_nowhere(broker: Broker, second: Broker, run: Run) -> None:
    """Else two of its places could meet at one broker, and there it would drive itself out."""
    run(echo_worker(broker, second))
    broker.welcome(CALM_MS, family_of(second, broker))
    second.welcome(CALM_MS, family_of(second, broker))
    broker.vanish()
    serves(second, b"t1")
    assert not second.heard("CONNECT")


def test_one_that_refuses_is_asked_again_later(broker: Broker, second: Broker, run: Run) -> None:
    run(echo_worker(broker, second))
    broker.hear("CONNECT")
    broker.tell("ERROR", reason="disabled: this broker is disabled")
    second.welcome(CALM_MS)
    serves(second, b"t1")
    broker.welcome(CALM_MS)
    serves(broker, b"t2")


def test_it_starts_with_one_of_them_and_says_who_is_missing(
    dead: Broker, broker: Broker, run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "famulus.worker"):
        running = run(echo_worker(dead, broker, connect_timeout_s=0.2))
        broker.welcome(CALM_MS)
        while "no broker answers" not in caplog.text:
            serves(broker, b"t1")
        serves(broker, b"t2")
        dead.come_back()
        dead.welcome(CALM_MS)
        serves(dead, b"t3")
    assert f"no broker answers at {dead.address} (tried for 0.2 s); waiting for it" in caplog.text
    assert running.error is None


def test_it_does_not_start_if_none_is_there(dead: Broker, broker: Broker) -> None:
    broker.vanish()
    with pytest.raises(BrokerUnreachable) as caught:
        echo_worker(dead, broker, connect_timeout_s=0.1).run()
    for address in (dead.address, broker.address):
        assert f"no broker answers at {address} (tried for 0.1 s); " in str(caught.value)
    assert "start one (famulus broker)" in str(caught.value)


def test_it_does_not_start_where_another_has_its_name_at_one_of_them(broker: Broker, second: Broker, run: Run) -> None:
    running = run(echo_worker(broker, second))
    broker.welcome(CALM_MS)
    second.hear("CONNECT")
    second.tell("ERROR", reason="conflict: another worker has this identity")
    running.wait()
    assert isinstance(running.error, IdentityTaken)
    assert second.address in str(running.error)


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"brokers": ["127.0.0.1:1", "127.0.0.1:2"]}, "slots: 1 cannot be divided among 2 brokers"),
        ({}, "at_once: name the brokers"),
        ({"broker": "127.0.0.1:1", "config_file": Path("saved.json")}, "config_file: not with at_once"),
    ],
)
def test_what_makes_no_sense_is_said(settings: dict[str, Any], why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FAMULUS_BACKEND", raising=False)
    with pytest.raises(SettingsError, match=why):
        Worker(at_once=True, **settings)
