"""The I/O of a worker against a broker that a test plays by hand, for what no real broker does."""

from __future__ import annotations

import logging
import re
import threading
import time
from typing import Any

import pytest
from tests.unit.worker.conftest import Broker, Run

from famulus.errors import BrokerUnreachable, IdentityTaken, SettingsError
from famulus.worker.worker import Worker


def echo_worker(broker: Broker, **settings: Any) -> Worker:
    worker = Worker(broker.address, **settings)
    worker.service("echo")(lambda body: body)
    return worker


def test_it_introduces_itself_serves_and_says_goodbye(broker: Broker, run: Run) -> None:
    running = run(echo_worker(broker, identity="w1", slots=7, heartbeat_ms=2500))
    _, fields, _ = broker.hear("CONNECT")
    assert re.fullmatch("[0-9a-f]{32}", fields.pop("worker_token")), "its name stays its own by it"
    assert fields == {
        "request": "CONNECT",
        "type": "REQUEST",
        "identity": "w1",
        "services": ["echo"],
        "slots": 7,
        "heartbeat_ms": 2500,
    }
    broker.tell("CONFIG", identity="w1", heartbeat_ms=2500, version=1, digest="d")
    broker.hear("PING")
    broker.tell("PONG", version=1, digest="d")
    broker.give(b"t1", "echo", b"hello")
    ticket, fields, body = broker.hear("TASK")
    assert (ticket, body) == (b"t1", b"hello")
    assert fields["message_id"] == "id-t1"
    assert fields.get("outcome", "OK") == "OK"
    running.worker.stop()
    broker.let_go()
    running.wait()
    assert running.result is True


def test_a_service_that_it_does_not_have_is_an_error(broker: Broker, run: Run) -> None:
    run(echo_worker(broker))
    broker.welcome()
    broker.give(b"t1", "other")
    _, fields, _ = broker.hear("TASK")
    assert fields["outcome"] == "ERROR"
    assert fields["reason"].startswith("no_service: ")


def test_nobody_there_is_said_with_the_address_and_what_to_do() -> None:
    worker = Worker("127.0.0.1:1", connect_timeout_s=0.1)
    worker.service("echo")(lambda body: body)
    with pytest.raises(BrokerUnreachable, match=r"no broker answers at tcp://127\.0\.0\.1:1 .*famulus broker.*--wait"):
        worker.run()


def test_somebody_who_is_no_broker_is_said_to_be_so(broker: Broker) -> None:
    with pytest.raises(BrokerUnreachable, match="does not answer as a broker does"):
        echo_worker(broker, connect_timeout_s=0.3).run()


def test_a_broker_that_refuses_is_quoted(broker: Broker, run: Run) -> None:
    running = run(echo_worker(broker, connect_timeout_s=0.5))
    broker.hear("CONNECT")
    broker.tell("ERROR", reason="overload: this broker is full")
    running.wait()
    assert isinstance(running.error, BrokerUnreachable)
    assert "will not have this worker: overload: this broker is full" in str(running.error)


def test_a_refused_worker_that_waits_asks_again(broker: Broker, run: Run, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "famulus.worker"):
        running = run(echo_worker(broker, connect_timeout_s=0.01, wait=True))
        for _ in range(3):
            broker.hear("CONNECT")
            broker.tell("ERROR", reason="overload: this broker is full")
        broker.welcome()
        broker.give(b"t1", "echo")
        broker.hear("TASK")
        running.worker.stop()
        broker.let_go()
        running.wait()
    assert caplog.text.count("overload") <= 2  # as the broker said it, and as the reason why we wait
    assert caplog.text.count("is ready") == 1


def test_a_name_that_was_given_away_later_does_not_end_us(broker: Broker, run: Run) -> None:
    running = run(echo_worker(broker, identity="twin"))
    broker.welcome()
    broker.tell("ERROR", reason="conflict: another one has its identity now")
    assert broker.welcome() == "twin"
    broker.give(b"t1", "echo")
    broker.hear("TASK")
    running.worker.stop()
    broker.let_go()
    running.wait()


def test_a_name_that_another_worker_has_keeps_us_from_starting(broker: Broker, run: Run) -> None:
    running = run(echo_worker(broker, identity="twin"))
    broker.hear("CONNECT")
    broker.tell("ERROR", reason="conflict: another worker connected with this identity")
    running.wait()
    assert isinstance(running.error, IdentityTaken)
    assert "'twin'" in str(running.error)


def test_after_a_lost_broker_it_comes_back_and_old_answers_are_dropped(
    broker: Broker, run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    inside, release = threading.Event(), threading.Event()
    worker = echo_worker(broker, slots=2)

    @worker.service("hold")
    def hold(body: bytes) -> bytes:
        inside.set()
        release.wait(20)
        return b"old"

    with caplog.at_level(logging.DEBUG, "famulus.worker"):
        running = run(worker)
        broker.welcome()
        broker.give(b"old", "hold")
        assert inside.wait(20)
        broker.restart()
        broker.welcome()
        release.set()
        broker.give(b"new", "echo", b"new")
        assert broker.hear("TASK")[0] == b"new"
        worker.stop()
        broker.let_go()
        running.wait()
    assert running.result is True
    assert caplog.text.count("lost the broker") == 1
    assert caplog.text.count("is ready again") == 1
    assert "the answer to task id-old comes after its broker was lost" in caplog.text


def test_a_broker_that_falls_silent_gets_a_new_connection(broker: Broker, run: Run) -> None:
    run(echo_worker(broker))
    broker.welcome(heartbeat_ms=50)
    # It pings in vain, gives up, and comes by another connection, though the first one was never closed.
    first = broker._peer
    broker.welcome(heartbeat_ms=1000)
    assert broker._peer != first
    broker.give(b"t1", "echo", b"again")
    assert broker.hear("TASK")[2] == b"again"


def test_a_stop_before_the_start_is_not_forgotten(broker: Broker) -> None:
    worker = echo_worker(broker)
    worker.stop()
    assert worker.run() is True


def test_tasks_that_do_not_end_are_given_up(broker: Broker, run: Run) -> None:
    inside, release = threading.Event(), threading.Event()
    worker = Worker(broker.address, drain_s=0.1)

    @worker.service("hold")
    def hold(body: bytes) -> None:
        inside.set()
        release.wait(20)

    running = run(worker)
    broker.welcome()
    broker.give(b"t1", "hold")
    assert inside.wait(20)
    worker.stop()
    running.wait()
    assert running.result is False
    release.set()


def test_a_second_stop_with_now_does_not_wait(broker: Broker, run: Run) -> None:
    inside, release = threading.Event(), threading.Event()
    worker = Worker(broker.address, drain_s=1000)

    @worker.service("hold")
    def hold(body: bytes) -> None:
        inside.set()
        release.wait(20)

    running = run(worker)
    broker.welcome()
    broker.give(b"t1", "hold")
    assert inside.wait(20)
    worker.stop()
    broker.hear("DISCONNECT")
    worker.stop(now=True)
    running.wait()
    assert running.result is False
    release.set()


def test_a_broker_that_is_lost_during_the_drain_is_not_waited_for(broker: Broker, run: Run) -> None:
    inside, release = threading.Event(), threading.Event()
    worker = Worker(broker.address, drain_s=1000)

    @worker.service("hold")
    def hold(body: bytes) -> None:
        inside.set()
        release.wait(20)

    running = run(worker)
    broker.welcome(heartbeat_ms=60_000)
    broker.give(b"t1", "hold")
    assert inside.wait(20)
    worker.stop()
    broker.hear("DISCONNECT")
    broker.restart()
    release.set()  # the function is waited for, though nobody wants its answer
    running.wait()
    assert running.result is True


def test_answers_that_do_not_leave_at_once_leave_later(broker: Broker, run: Run) -> None:
    count, body = 6000, bytes(4096)
    run(echo_worker(broker, slots=count))
    broker.welcome(heartbeat_ms=60_000)
    # Far more than the queues and buffers of two sockets hold while nobody reads.
    for number in range(count):
        broker.give(b"%d" % number, "echo", body)
    began = time.monotonic()
    tickets = [broker.hear("TASK")[0] for _ in range(count)]
    assert time.monotonic() - began < 9.0  # sooner than a worker that has to be woken by something else
    assert sorted(tickets) == sorted(b"%d" % number for number in range(count))


def test_wrong_use_is_said_before_anything_starts(broker: Broker, run: Run) -> None:
    with pytest.raises(SettingsError, match="no services"):
        Worker(broker.address).run()
    worker = Worker(broker.address, processes=2)

    @worker.service("later")
    async def later(body: bytes) -> bytes:
        return body

    with pytest.raises(SettingsError, match=r"'later' is an async function.*not in processes"):
        worker.run()


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"slots": 0}, "slots"),
        ({"slots": 10**9}, "slots"),
        ({"processes": -1}, "processes"),
        ({"heartbeat_ms": 0}, "heartbeat_ms"),
        ({"identity": ""}, "identity"),
        ({"identity": "a\nb"}, "identity"),
        ({"drain_s": -1}, "drain_s"),
        ({"drain_s": float("nan")}, "drain_s"),
        ({"connect_timeout_s": 0}, "connect_timeout_s"),
        ({"brokers": "b:2"}, "brokers"),
        ({"config_file": "/"}, "config_file"),
        ({"return_after_s": (90, 30)}, "return_after_s"),
        ({"return_after_s": (-1, 30)}, "return_after_s"),
        ({"return_after_s": (0, float("inf"))}, "return_after_s"),
    ],
)
def test_a_wrong_setting_is_named(settings: dict[str, Any], key: str) -> None:
    with pytest.raises(SettingsError, match=f"^{key}: "):
        Worker(**settings)


def test_slots_default_to_the_processes_and_the_address_to_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAMULUS_BACKEND", "far.example:9")
    assert Worker().settings.addresses == ("tcp://far.example:9",)
    assert Worker("near:1", brokers=["b:2", "near:1"]).settings.addresses == ("tcp://near:1", "tcp://b:2")
    assert Worker(brokers=["b:2", "c:3"]).settings.addresses == ("tcp://b:2", "tcp://c:3")
    monkeypatch.delenv("FAMULUS_BACKEND")
    assert Worker().settings.addresses == (), "nobody chose"
    assert Worker(processes=3).settings.capacity == 3
    assert Worker(processes=3, slots=9).settings.capacity == 9
    assert Worker().settings.capacity == 1
    assert Worker().identity != Worker().identity


def test_a_running_worker_takes_no_more_services_and_no_second_run(broker: Broker, run: Run) -> None:
    running = run(echo_worker(broker))
    broker.welcome()
    with pytest.raises(Exception, match="runs already"):
        running.worker.service("more")(lambda body: body)
    with pytest.raises(Exception, match="runs already"):
        running.worker.run()


def test_a_quick_function_that_turns_slow_keeps_nobody(broker: Broker, run: Run) -> None:
    """Its calls were run by the thread that does the I/O; now another one pings, serves and drains."""
    threads: set[str] = set()
    inside, release = threading.Event(), threading.Event()
    worker = Worker(broker.address, slots=10)

    @worker.service("echo")
    def echo(body: bytes) -> bytes:
        threads.add(threading.current_thread().name)
        if body == b"slow":
            inside.set()
            release.wait(20)
        return body

    running = run(worker)
    broker.welcome(heartbeat_ms=200)
    for number in range(200):
        broker.give(b"q%d" % number, "echo", b"quick")
        assert broker.hear("TASK")[2] == b"quick"
    assert "famulus-worker" in threads or "famulus-worker-deputy" in threads, "none was run by the I/O thread"
    broker.give(b"s", "echo", b"slow")
    broker.give(b"n", "echo", b"next")
    assert inside.wait(20)
    assert broker.hear("TASK")[0] == b"n"
    broker.hear("PING")
    broker.tell("PONG", version=1, digest="d")
    worker.stop()
    broker.hear("DISCONNECT")
    assert running.result is None, "it waits for the slow one"
    release.set()
    assert broker.hear("TASK")[0] == b"s"
    broker.tell("DISCONNECT")
    running.wait()
    assert running.result is True
