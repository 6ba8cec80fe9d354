"""Brokers on machines of their own: parted and healed, killed under load, and what workers, clients and admins see.

Measured times are printed (pytest -s shows them). A machine under load is slow: so each bar is allowed ALLOWANCE times.
"""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import zmq
from tests.processes.conftest import HERE, Process, Raw, wait_until
from tests.processes.lan import Namespaces, make_lan
from tests.processes.loads import Load
from tests.processes.networks import Member, Network

from famulus.lab.chaos.lan import can_have_namespaces

#: From the death of a broker to the next success of a client that tries again.
CLIENT_BAR_S = 2.0
#: From the death of a broker until its workers serve elsewhere.
WORKER_BAR_S = 3.0
#: From a heal to equal digests.
STEP_BAR_S = 3.0
ALLOWANCE = 5
#: How many brokers converge. 16 in longer runs: a broker is four processes.
BROKERS = int(os.environ.get("FAMULUS_TEST_BROKERS", "6"))

MAIN = ("b1", "b2", "b3")


@pytest.fixture(scope="module")
def quartet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    """Three brokers of a family, and one of the family that it falls back on. Each test leaves it whole."""
    with ExitStack() as closing:
        lan = make_lan()
        network = Network(tmp_path_factory.mktemp("quartet"), lan)
        closing.callback(network.close)
        b1 = network.found("b1")
        for identity in ("b2", "b3"):
            network.join(identity, wait=False)
        network.join("s1", family="spare", wait=False)
        for member in network.members.values():
            member.broker.wait_until_ready(60)
        b1.admin.put("family/main", {"fallback_families": ["spare"]})
        network.wait_until_active(30)
        network.wait_until_in_step(20)
        yield network


@pytest.fixture
def load(quartet: Network, tmp_path: Path) -> Iterator[Load]:
    load = Load(quartet, tmp_path)
    yield load
    load.close()
    quartet.lan.heal()


def measured(what: str, took_s: float, bar_s: float) -> None:
    print(f"\n{what}: {took_s:.2f} s; the bar is {bar_s:g} s")
    assert took_s < bar_s * ALLOWANCE


def seconds_until(holds: Callable[[], object], since: float, what: str) -> float:
    wait_until(holds, 30, what)
    return time.monotonic() - since


# -- killed under load ----------------------------------------------------------------------------------------------


def test_kill_of_a_broker_under_load(quartet: Network, load: Load) -> None:
    b1 = quartet["b1"]
    moving = [load.worker(name, "b1") for name in ("w1", "w2")]
    for identity in ("b2", "b3", "s1"):
        load.worker(f"w{identity}", identity)
    load.client("c1", "b1")
    load.client("c2", "b2")
    load.wait_until_under_way()
    killed = time.monotonic()
    b1.kill()
    moved = seconds_until(
        lambda: all("is ready again" in worker.output for worker in moving), killed, "both workers elsewhere"
    )
    measured("the client's next success after the kill", load.success_after("c1", killed), CLIENT_BAR_S)
    measured("both workers serve elsewhere after the kill", moved, WORKER_BAR_S)
    assert load.success_after("c2", killed) < CLIENT_BAR_S * ALLOWANCE, "the other one goes on"
    b1.start()
    wait_until(lambda: b1.logged_digest() == quartet["b2"].logged_digest(), 20, "b1 in step again")
    load.stop()
    wait_until(b1.is_active, 20, "b1 active again")


# -- parted ---------------------------------------------------------------------------------------------------------


def test_parted_under_load_both_sides_go_on_and_are_in_step_after_the_heal(quartet: Network, load: Load) -> None:
    for worker, at in (("w1", "b1"), ("w2", "b2"), ("w3", "b3"), ("crossing", "b1")):
        load.worker(worker, at)
    load.client("c1", "b1")
    load.client("c3", "b3")
    load.wait_until_under_way()
    parted = time.monotonic()
    quartet.lan.partition([], ["b3", "w3", "c3", "crossing"])
    b1, b3 = quartet["b1"], quartet["b3"]
    lost = seconds_until(lambda: not b1.admin.told("show")["brokers"]["b3"]["alive"], parted, "b3 lost for b1")
    print(f"\na parted broker is taken for lost after {lost:.2f} s")
    for name in ("c1", "c3"):
        load.success_after(name, time.monotonic())
    crossing = load.workers["crossing"]
    crossing.wait_for_line(rf"is ready again: once at {b3.backend}", 40)
    print(f"\na worker that cannot reach its broker serves its own side after {time.monotonic() - parted:.2f} s")
    before = {b1.logged_digest(), b3.logged_digest()}
    b1.admin.put("service/of-b1", {"timeout_ms": 1000})
    b3.admin.put("service/of-b3", {"timeout_ms": 3000})
    wait_until(lambda: not {b1.logged_digest(), b3.logged_digest()} & before, 20, "that both logs tell of it")
    quartet.lan.heal()
    healed = time.monotonic()
    took = seconds_until(lambda: len({quartet[each].logged_digest() for each in (*MAIN, "s1")}) == 1, healed, "in step")
    measured("equal digests after the heal", took, STEP_BAR_S)
    assert b3.admin.value("service/of-b1") == {"timeout_ms": 1000}
    assert b1.admin.value("service/of-b3") == {"timeout_ms": 3000}
    load.stop()


def test_two_admins_edit_one_key_on_both_sides(quartet: Network) -> None:
    b1, b2 = quartet["b1"], quartet["b2"]
    b1.cli("config", "set", "service/echo", "timeout_ms=1000", "--wait", "20")
    quartet.lan.partition([], ["b2"])
    try:
        wait_until(lambda: not b1.admin.told("show")["brokers"]["b2"]["alive"], 20, "b2 lost for b1")
        said = b1.cli("config", "set", "service/echo", "timeout_ms=2000", "--wait", "20").stdout
        assert "not alive, so not waited for: b2" in said
        ours = b1.cli_json("config", "get", "service/echo")["heads"][0]["id"]
        (theirs,) = b2.cli_json("config", "set", "service/echo", "timeout_ms=3000")["edits"]
        assert "no conflicts" in b2.cli("config", "conflicts").stdout
        wait_until(lambda: b1.logged_digest() != b2.logged_digest(), 20, "that their logs tell of two configs")
    finally:
        quartet.lan.heal()
    healed = time.monotonic()
    took = seconds_until(lambda: b1.logged_digest() == b2.logged_digest(), healed, "in step")
    measured("equal digests after the heal", took, STEP_BAR_S)
    effective = []
    for member in (b1, b2, quartet["b3"]):
        (conflict,) = member.cli_json("config", "conflicts")["conflicts"].items()
        assert conflict[0] == "service/echo"
        assert {head["id"] for head in conflict[1]} == {ours, theirs}
        effective.append(member.cli_json("config", "get", "service/echo")["value"])
    assert effective == [effective[0]] * 3
    assert effective[0] in ({"timeout_ms": 2000}, {"timeout_ms": 3000})
    history = b2.cli("config", "history", "service/echo").stdout
    assert ours[:8] in history
    assert theirs[:8] in history
    assert history.count("head  ") == 2
    resolved = b1.cli("config", "resolve", "service/echo", "--choose", theirs[:8], "--wait", "20")
    assert "this ends the conflict of its 2 heads" in resolved.stderr
    for member in quartet.members.values():
        assert member.admin.told("show")["conflicts"] == []
        assert member.admin.value("service/echo") == {"timeout_ms": 3000}
    assert len(b2.cli_json("config", "history", "service/echo")["edits"]) == 4
    assert (
        "service/echo is not in conflict"
        in b2.cli("config", "resolve", "service/echo", "--choose", ours, code=1).stderr
    )


def stand_ins(network: Network, identity: str) -> list[str]:
    """Whom a broker names to those who ask for others."""
    connection = Raw(network.context_of(identity), zmq.DEALER, network[identity].backend)
    try:
        connection.tell("NEEDBROKER", services=["once"], role="worker")
        return [each["identity"] for each in json.loads(connection.recv()[2])["brokers"]]
    finally:
        connection.socket.close(0)


# -- workers and a family that is gone ------------------------------------------------------------------------------


MODULE = """
from famulus import Worker

worker = Worker(slots=2)


@worker.service("upper")
def upper(body):
    return body.upper()
"""


def shop_worker(network: Network, folder: Path, *options: str) -> Process:
    (folder / "shop.py").write_text(MODULE)
    broker = network["b1"].backend
    return network.run("w1", "-m", "famulus", "worker", "shop", "--broker", broker, *options, cwd=folder)


def work_once(network: Network, folder: Path, *keeps: str) -> None:
    """A worker that was at b1, and saved what it was told there."""
    worker = shop_worker(network, folder, *keeps)
    worker.wait_for_line(f"is ready: upper at {network['b1'].backend}", 30)
    wait_until(Path(keeps[-1]).exists, 10, "a saved config")
    worker.signal(signal.SIGTERM)
    assert worker.wait(30) == 0


def test_a_worker_whose_broker_is_down_at_its_start(quartet: Network, tmp_path: Path) -> None:
    """With a saved config it finds another broker of its family; without one it says that nobody is there."""
    b1 = quartet["b1"]
    keeps = ("--config-file", str(tmp_path / "saved.json"))
    work_once(quartet, tmp_path, *keeps)
    b1.kill()
    without, again = shop_worker(quartet, tmp_path), shop_worker(quartet, tmp_path, *keeps)
    backends = "|".join(re.escape(quartet[identity].backend) for identity in ("b2", "b3"))
    again.wait_for_line(f"is ready: upper at ({backends})", 30)
    assert without.wait(30) == 7
    assert f"no broker answers at {b1.backend} (tried for 5 s)" in without.output
    b1.start()
    wait_until(b1.is_active, 20, "b1 active again")
    again.close()


def test_a_worker_whose_whole_family_is_down_serves_the_fallback_family(
    quartet: Network, load: Load, tmp_path: Path
) -> None:
    keeps = ("--config-file", str(tmp_path / "saved.json"))
    work_once(quartet, tmp_path, *keeps)
    # It asks who could stand in as soon as it is ready, and what it is told then is what it has when nobody is left.
    wait_until(lambda: "s1" in stand_ins(quartet, "b1"), 20, "s1 as a stand-in of b1")
    worker = load.worker("w1", "b1")
    load.client("c1", "b1")
    load.wait_until_under_way()
    for identity in MAIN:
        quartet[identity].kill()
    killed = time.monotonic()
    worker.wait_for_line(rf"is ready again: once at {quartet['s1'].backend}", 40)
    print(f"\na worker serves the fallback family {time.monotonic() - killed:.2f} s after the death of its own")
    # One that starts only now knows them from what it had saved.
    late = shop_worker(quartet, tmp_path, *keeps)
    late.wait_for_line(f"is ready: upper at {quartet['s1'].backend}", 30)
    late.close()
    print(f"\na client has its next success {load.success_after('c1', killed):.2f} s after the death of the family")
    for identity in MAIN:
        quartet[identity].start(wait=False)
    for identity in MAIN:
        quartet[identity].broker.wait_until_ready(60)
    load.stop()
    quartet.wait_until_active(30)
    quartet.wait_until_in_step(20)


# -- machines that are not loopback ---------------------------------------------------------------------------------


@pytest.mark.skipif(not can_have_namespaces(), reason="machines of their own take network namespaces: root, and ip")
def test_brokers_on_machines_that_others_reach_hear_admins_on_loopback_only(tmp_path: Path) -> None:
    with ExitStack() as closing:
        network = Network(tmp_path, Namespaces("10.77.0"))
        closing.callback(network.close)
        plain = ("--plain-on-purpose",)
        b1, b2 = network.found("b1", *plain), network.join("b2", flags=plain)
        assert b1.broker.frontend == "tcp://10.77.0.1:7100", "it listens where it said that others reach it"
        b1.broker.wait_for_line("WARNING .*plain on purpose: whoever reaches 10.77.0.1 may come without a key")
        refused = b1.cli("config", "show", "--broker", b1.frontend, code=8)
        assert refused.stderr == (
            "famulus: not_allowed: a password would be readable on its way: "
            "ask on the broker's own machine, with --broker 127.0.0.1:7105\n"
        )
        b1.cli("config", "set", "service/echo", "max_attempts=3", "--wait", "60", "--broker", "127.0.0.1:7105")
        wait_until(lambda: b1.logged_digest() == b2.logged_digest(), 20, "in step, by their logs")
        worker = network.run("w1", str(HERE / "echo_worker.py"), b2.backend, "4", "echo")
        worker.wait_for_line("is ready: ", 30)
        call = ("-m", "famulus", "call", "echo", "over there", "--broker", b1.frontend, "--timeout", "2")

        def handed_over() -> bool:
            called = network.run("c1", *call)
            return called.wait(30) == 0 and called.output == "over there"

        wait_until(handed_over, 40, "a task that b1 hands over to b2")


# -- many -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def crowd(tmp_path: Path) -> Iterator[Network]:
    with ExitStack() as closing:
        network = Network(tmp_path, make_lan())
        closing.callback(network.close)
        network.found("b1")
        for first in range(2, BROKERS + 1, 4):
            batch = [network.join(f"b{number}", wait=False) for number in range(first, min(first + 4, BROKERS + 1))]
            for member in batch:
                member.broker.wait_until_ready(100)
        yield network


@pytest.mark.timeout(300)
def test_many_brokers_are_in_step_after_edits_on_both_sides(crowd: Network) -> None:
    members = list(crowd.members.values())

    def digests(some: list[Member]) -> set[str]:
        return {member.logged_digest() for member in some}

    wait_until(lambda: len(digests(members)) == 1, 60, "all in step")
    left, right = members[::2], members[1::2]
    crowd.lan.partition([member.identity for member in left], [member.identity for member in right])
    before = digests(members)
    for side in (left, right):
        for number, member in enumerate(side[:3]):
            member.admin.put(f"service/{member.identity}", {"timeout_ms": number + 1})
            member.admin.put("service/disputed", {"timeout_ms": number + 1})
        wait_until(lambda side=side: len(digests(side)) == 1 and digests(side) != before, 60, "a side in step")  # type: ignore[misc]
    assert digests(left) != digests(right)
    # Until connections that lead nowhere are given up on both sides.
    wait_until(lambda: not members[0].admin.told("show")["brokers"]["b2"]["alive"], 20, "b2 lost for b1")
    crowd.lan.heal()
    healed = time.monotonic()
    took = seconds_until(lambda: len(digests(members)) == 1, healed, "all in step")
    measured(f"{BROKERS} brokers in step after the heal", took, STEP_BAR_S)
    assert (
        members[0].admin.told("show")["conflicts"] == members[1].admin.told("show")["conflicts"] == ["service/disputed"]
    )
