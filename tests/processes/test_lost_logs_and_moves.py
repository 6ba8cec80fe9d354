"""Brokers of a network that lost their log, or that listen elsewhere than their config will have them one day."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import zmq
from tests.processes.conftest import Raw, wait_until
from tests.processes.networks import Member, Network, famulus

#: Longer than a peer may be silent.
WATCHED_S = 4.0


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Network]:
    network = Network(tmp_path)
    network.found("b1")
    network.join("b2")
    network.wait_until_in_step(20)
    yield network
    network.close()


def hears(one: Member, other: Member) -> bool:
    return bool(one.admin.told("show", prefix="none")["brokers"][other.identity]["alive"])


def damage_first_record(log: Path) -> None:
    data = bytearray(log.read_bytes())
    data[data.index(b"\xedEDIT\r\n\xff") + 60] ^= 0xFF
    log.write_bytes(data)


def says(member: Member, words: str) -> bool:
    return any(words in line for line in list(member.broker.lines))


def test_a_broker_without_its_log_takes_it_from_its_peer_and_serves_again(pair: Network) -> None:
    b1, b2 = pair["b1"], pair["b2"]
    b2.admin.put("service/echo", {"timeout_ms": 4321})
    pair.wait_until_in_step(20)
    digest = b2.admin.digest()
    # Its peer is not there when it starts: it does not pretend, and waits.
    b2.kill()
    b1.kill()
    (b1.path / "edits.log").unlink()
    b1.start()
    assert says(b1, "the config of this broker is lost: it takes no work until it has it again from b2")
    assert not b1.is_active()
    reason, _ = b1.admin.ask("show")
    assert reason.startswith("disabled: this broker lost its config")
    b2.start()
    wait_until(b1.is_active, 20, "that it serves again")
    assert (b1.admin.digest(), b1.admin.value("service/echo")) == (digest, {"timeout_ms": 4321})
    wait_until(lambda: says(b1, "caught up with the peers"), 5, "a word about it")
    # Once more, with a log of which only the beginning is gone, and with its peer there.
    b1.kill()
    damage_first_record(b1.path / "edits.log")
    b1.start()
    wait_until(b1.is_active, 20, "that it serves again")
    assert b1.admin.digest() == digest


def test_one_that_lost_its_log_and_forgot_its_peers_says_so_and_can_be_told_of_one(pair: Network) -> None:
    b1, b2 = pair["b1"], pair["b2"]
    b2.kill()
    (b2.path / "edits.log").unlink()
    (b2.path / "brokers.json").unlink()
    refused = famulus("broker", "--folder", str(b2.path), code=2).stderr
    assert "the config of the network is lost" in refused
    assert "--join HOST:PORT" in refused
    b2.start("--join", f"{b1.machine.host}:{b1.peer_port}")
    pair.wait_until_in_step(20)
    wait_until(b2.is_active, 20, "that it serves again")


def test_ports_of_an_edit_count_from_the_next_start_and_nobody_is_sent_there_before(pair: Network) -> None:
    b1, b2 = pair["b1"], pair["b2"]
    frontend, *_, peer = pair.lan.ports()
    # One that has just joined is in step before it has heard a heartbeat.
    wait_until(lambda: all(hears(one, other) for one, other in ((b1, b2), (b2, b1))), 20, "that they hear each other")
    told = b1.cli("config", "set", "broker/b2", f"peer_port={peer}", f"frontend_port={frontend}")
    assert "restart it" in told.stdout + told.stderr
    pair.wait_until_in_step(20)
    until = time.monotonic() + WATCHED_S
    while time.monotonic() < until:
        for one, other in ((b1, b2), (b2, b1)):
            assert hears(one, other), "they hear each other"
    assert frontends_told(pair, b1) == {"b1": b1.frontend, "b2": b2.frontend}
    b2.kill()
    b2.start()
    moved = f"tcp://{b2.machine.host}:{frontend}"
    assert b2.broker.frontend == moved
    wait_until(lambda: frontends_told(pair, b1).get("b2") == moved, 20, "that it is told where it is now")


def frontends_told(network: Network, member: Member) -> dict[str, str]:
    asker = Raw(network.context_of(member.identity), zmq.DEALER, member.frontend)
    try:
        asker.tell("NEEDBROKER", services=[], role="client")
        _, _, body = asker.recv()
    finally:
        asker.socket.close(0)
    return {each["identity"]: each["frontend"] for each in json.loads(body)["brokers"]}
