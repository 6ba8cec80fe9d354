"""A worker that outlives its broker, against brokers that a test plays by hand."""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from tests.unit.worker.conftest import Broker, Run, family_of

from famulus.errors import BrokerUnreachable, IdentityTaken
from famulus.worker.worker import Worker

#: Long enough that nobody pings in the middle of a test; loss is told by the connection then.
CALM_MS = 60_000


def echo_worker(*brokers: Broker, **settings: Any) -> Worker:
    worker = Worker(brokers=[broker.address for broker in brokers], **settings)
    worker.service("echo")(lambda body: body)
    return worker


def serves(broker: Broker, ticket: bytes) -> None:
    broker.give(ticket, "echo", b"body of " + ticket)
    assert broker.hear("TASK")[::2] == (ticket, b"body of " + ticket)


def ends(broker: Broker, run: Any) -> None:
    run.worker.stop()
    broker.let_go()
    run.wait()
    assert run.result is True


# -- the start ----------------------------------------------------------------------------------------------------


def test_the_first_one_is_preferred(broker: Broker, second: Broker, run: Run) -> None:
    running = run(echo_worker(broker, second))
    broker.welcome()
    serves(broker, b"t1")
    ends(broker, running)
    assert not second.heard_anything()


def test_one_that_is_dead_at_the_start_is_passed_over(dead: Broker, broker: Broker, run: Run) -> None:
    running = run(echo_worker(dead, broker))
    broker.welcome()
    serves(broker, b"t1")
    ends(broker, running)


def test_all_that_were_tried_are_named_when_nobody_answers(dead: Broker, broker: Broker, second: Broker) -> None:
    broker.vanish()
    second.vanish()
    worker = Worker(dead.address, brokers=[broker.address, second.address], connect_timeout_s=0.1)
    worker.service("echo")(lambda body: body)
    with pytest.raises(BrokerUnreachable) as caught:
        worker.run()
    wanted = f"no broker answers at {dead.address}, {broker.address} or {second.address} (tried for 0.1 s); start one"
    assert wanted in str(caught.value)


def test_what_each_of_them_did_is_said(dead: Broker, broker: Broker, second: Broker, run: Run) -> None:
    running = run(echo_worker(dead, broker, second, connect_timeout_s=0.1))
    broker.refuse("overload: this broker is full")
    running.wait()  # the second one takes the connection, and says nothing
    said = str(running.error)
    assert isinstance(running.error, BrokerUnreachable)
    assert f"the broker at {broker.address} will not have this worker: overload: this broker is full" in said
    assert f"something at {second.address} takes connections" in said
    assert f"no broker answers at {dead.address} (tried" in said


def test_who_waits_says_so_once_and_is_served_by_the_first_that_comes(
    dead: Broker, broker: Broker, run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    broker.vanish()
    with caplog.at_level(logging.INFO, "famulus.worker"):
        running = run(echo_worker(dead, broker, wait=True, connect_timeout_s=0.1))
        until = time.monotonic() + 20
        while "waiting for one of them" not in caplog.text:
            assert time.monotonic() < until
            time.sleep(0.005)
        broker.come_back()
        broker.welcome()
        serves(broker, b"t1")
        ends(broker, running)
    assert caplog.text.count("waiting for one of them") == 1
    assert caplog.text.count(f"is ready: echo at {broker.address}") == 1


# -- in the middle ------------------------------------------------------------------------------------------------


def test_one_that_dies_in_the_middle_is_left_for_the_next_under_the_same_name(
    broker: Broker, second: Broker, run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    inside, release = threading.Event(), threading.Event()
    worker = echo_worker(broker, second, slots=2)

    @worker.service("hold")
    def hold(body: bytes) -> bytes:
        inside.set()
        release.wait(20)
        return b"old"

    with caplog.at_level(logging.DEBUG, "famulus.worker"):
        running = run(worker)
        identity = broker.welcome(CALM_MS)
        broker.give(b"old", "hold")
        assert inside.wait(20)
        broker.vanish()
        assert second.welcome(CALM_MS) == identity
        release.set()
        serves(second, b"new")
        ends(second, running)
    assert caplog.text.count(f"lost the broker at {broker.address}; trying again") == 1
    assert f"is ready again: echo, hold at {second.address}" in caplog.text
    assert "the answer to task id-old comes after its broker was lost" in caplog.text


def test_one_that_is_back_in_a_moment_keeps_its_workers(broker: Broker, second: Broker, run: Run) -> None:
    running = run(echo_worker(broker, second))
    broker.welcome(CALM_MS)
    serves(broker, b"t1")
    broker.restart()
    broker.welcome(CALM_MS)
    serves(broker, b"t2")
    ends(broker, running)
    assert not second.heard_anything()


def test_one_that_falls_silent_is_left_after_three_heartbeats(broker: Broker, second: Broker, run: Run) -> None:
    running = run(echo_worker(broker, second))
    broker.welcome(heartbeat_ms=50)
    second.welcome(CALM_MS)
    serves(second, b"t1")
    ends(second, running)


def test_one_that_refuses_is_left_for_the_one_that_it_tells_of(broker: Broker, second: Broker, run: Run) -> None:
    running = run(echo_worker(broker))
    broker.refuse("disabled: this broker is shutting down", second.address)
    second.welcome(CALM_MS)
    serves(second, b"t1")
    ends(second, running)


def test_one_that_is_disabled_while_we_work_for_it_gets_its_answers(
    broker: Broker, second: Broker, run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    inside, release = threading.Event(), threading.Event()
    worker = echo_worker(broker, second, slots=2)

    @worker.service("hold")
    def hold(body: bytes) -> bytes:
        inside.set()
        release.wait(20)
        return b"held"

    with caplog.at_level(logging.INFO, "famulus.worker"):
        running = run(worker)
        broker.welcome(CALM_MS)
        broker.give(b"t1", "hold")
        assert inside.wait(20)
        broker.tell("ERROR", reason="disabled: this broker is disabled")
        broker.hear("DISCONNECT")
        release.set()
        assert broker.hear("TASK")[::2] == (b"t1", b"held")
        broker.tell("DISCONNECT")
        second.welcome(CALM_MS)
        serves(second, b"t2")
        ends(second, running)
    assert f"leaves the broker at {broker.address}" in caplog.text
    assert "lost" not in caplog.text


def test_the_family_of_the_config_stands_in_for_a_broker_that_dies(broker: Broker, second: Broker, run: Run) -> None:
    running = run(echo_worker(broker))
    broker.welcome(CALM_MS, family_of(broker, second))
    serves(broker, b"t1")
    broker.vanish()
    second.welcome(CALM_MS, family_of(broker, second, preferred=1))
    serves(second, b"t2")
    ends(second, running)


def test_those_that_a_broker_told_of_in_time_stand_in_for_it_too(broker: Broker, second: Broker, run: Run) -> None:
    running = run(echo_worker(broker))
    broker.welcome(CALM_MS)
    broker.hear("NEEDBROKER")
    told = b'{"brokers":[{"identity":"far","backend":"%b","family":"fallback"}]}' % second.address.encode()
    broker.tell("NEEDBROKER", body=told)
    serves(broker, b"t1")
    broker.vanish()
    second.welcome(CALM_MS)
    serves(second, b"t2")
    ends(second, running)


def test_an_address_that_is_none_is_passed_over(
    broker: Broker, second: Broker, run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "famulus.worker"):
        running = run(echo_worker(broker))
        broker.refuse("overload: full", "tcp://-:7101", second.address)
        second.welcome(CALM_MS)
        serves(second, b"t1")
        ends(second, running)
    assert caplog.text.count("'tcp://-:7101' is not a broker's address") == 1


def test_a_name_that_another_worker_has_keeps_us_from_starting_at_any_broker(
    dead: Broker, broker: Broker, run: Run
) -> None:
    running = run(echo_worker(dead, broker, identity="twin"))
    broker.hear("CONNECT")
    broker.tell("ERROR", reason="conflict: another worker connected with this identity")
    running.wait()
    assert isinstance(running.error, IdentityTaken)
    assert broker.address in str(running.error)


# -- back home ----------------------------------------------------------------------------------------------------


def test_it_goes_home_and_loses_no_task_on_the_way(
    dead: Broker, second: Broker, run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    inside, release = threading.Event(), threading.Event()
    worker = echo_worker(dead, second, slots=3, return_after_s=(0.1, 0.2))

    @worker.service("hold")
    def hold(body: bytes) -> bytes:
        inside.set()
        release.wait(20)
        return b"held"

    with caplog.at_level(logging.INFO, "famulus.worker"):
        running = run(worker)
        identity = second.welcome(CALM_MS)
        second.give(b"t1", "hold")
        assert inside.wait(20)
        home = dead
        home.come_back()
        home.hear("PING")  # not a CONNECT: it has a broker
        home.tell("ERROR", reason="not_connected: connect again")
        second.hear("DISCONNECT")
        second.give(b"t2", "echo", b"crossing")  # given before the DISCONNECT was read
        assert second.hear("TASK")[::2] == (b"t2", b"crossing")
        assert not home.heard("CONNECT"), "it still holds a task of the other"
        release.set()
        assert second.hear("TASK")[::2] == (b"t1", b"held")
        second.tell("DISCONNECT")
        assert home.welcome(CALM_MS) == identity
        serves(home, b"t3")
        ends(home, running)
    assert f"goes back to its broker at {home.address}" in caplog.text
    assert f"is ready again: echo, hold at {home.address}" in caplog.text
    assert "lost" not in caplog.text


def test_a_home_that_will_have_nobody_is_not_gone_back_to(dead: Broker, second: Broker, run: Run) -> None:
    running = run(echo_worker(dead, second, return_after_s=(0.01, 0.02)))
    second.welcome(CALM_MS)
    dead.come_back()
    for _ in range(3):
        dead.hear("PING")
        dead.tell("ERROR", reason="disabled: this broker is disabled")
    serves(second, b"t1")
    ends(second, running)


def test_a_home_that_is_gone_again_is_left_for_the_other(dead: Broker, second: Broker, run: Run) -> None:
    running = run(echo_worker(dead, second, return_after_s=(0.01, 0.02)))
    identity = second.welcome(CALM_MS)
    dead.come_back()
    dead.hear("PING")
    dead.tell("ERROR", reason="not_connected: connect again")
    second.hear("DISCONNECT")
    dead.vanish()
    second.tell("DISCONNECT")
    assert second.welcome(CALM_MS) == identity
    serves(second, b"t1")
    ends(second, running)


def test_a_stop_in_the_middle_of_a_probe_is_obeyed(dead: Broker, second: Broker, run: Run) -> None:
    running = run(echo_worker(dead, second, return_after_s=(0.01, 0.02)))
    second.welcome(CALM_MS)
    dead.come_back()
    dead.hear("PING")  # and no answer
    ends(second, running)


# -- the saved config ---------------------------------------------------------------------------------------------


def test_a_config_is_kept_and_read_when_the_given_broker_is_dead(
    dead: Broker, broker: Broker, run: Run, tmp_path: Path
) -> None:
    file = tmp_path / "worker.json"
    config = family_of(dead, broker)
    first = run(echo_worker(broker, config_file=file))
    broker.welcome(CALM_MS, config)
    ends(broker, first)
    assert file.read_bytes() == config
    assert file.stat().st_mode & 0o777 == 0o600
    again = run(echo_worker(dead, config_file=str(file)))
    broker.welcome(CALM_MS, config)
    serves(broker, b"t1")
    ends(broker, again)


def test_without_an_address_the_saved_config_says_where_to_go(
    broker: Broker, second: Broker, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FAMULUS_BACKEND", raising=False)
    file = tmp_path / "worker.json"
    file.write_bytes(family_of(broker, second, preferred=1))
    running = run(echo_worker(config_file=file))
    second.welcome(CALM_MS, family_of(broker, second, preferred=1))
    serves(second, b"t1")
    ends(second, running)
    assert not broker.heard_anything()


def test_those_of_the_saved_config_are_named_when_nobody_answers(dead: Broker, broker: Broker, tmp_path: Path) -> None:
    broker.vanish()
    file = tmp_path / "worker.json"
    file.write_bytes(family_of(broker))
    with pytest.raises(BrokerUnreachable, match=f"no broker answers at {dead.address} or {broker.address} "):
        echo_worker(dead, config_file=file, connect_timeout_s=0.1).run()


@pytest.mark.parametrize("content", [b"", b"{", b'{"something": "else"}', b"\xff\x00"])
def test_a_broken_or_foreign_file_is_a_warning_and_stays_until_a_good_config_comes(
    broker: Broker, run: Run, tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "worker.json"
    file.write_bytes(content)
    with caplog.at_level(logging.WARNING, "famulus.worker"):
        running = run(echo_worker(broker, config_file=file))
        broker.welcome(CALM_MS, b"this is no config either")
        serves(broker, b"t1")
        assert file.read_bytes() == content
        broker.tell("CONFIG", body=family_of(broker), identity="w", heartbeat_ms=CALM_MS, version=2, digest="d2")
        serves(broker, b"t2")
        ends(broker, running)
    assert caplog.text.count("is not the saved config of a worker") == 1
    assert file.read_bytes() == family_of(broker)
    assert [each.name for each in tmp_path.iterdir()] == ["worker.json"], "no draft is left behind"
