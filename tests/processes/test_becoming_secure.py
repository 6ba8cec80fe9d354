"""A network without keys gets some, broker by broker, and a broker gets another key: under load, and nobody notices.

See docs/security.md for what an admin types.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.processes.conftest import wait_until
from tests.processes.lan import Lan, Loopback, Namespaces
from tests.processes.loads import Load
from tests.processes.networks import Network, port_flags
from tests.processes.secured import is_let_in

from famulus.lab.chaos import lan

PLAIN = ("--plain-on-purpose",)
BROKERS = ("b1", "b2")


def machines() -> Lan:
    """With addresses that are not those of loopback, if that can be."""
    return Namespaces("10.78.0") if lan.can_have_namespaces() else Loopback()


@pytest.fixture
def network(tmp_path: Path) -> Iterator[Network]:
    with closing(Network(tmp_path, machines())) as network:
        network.found("b1", *PLAIN, keys="none")
        network.join("b2", flags=PLAIN)
        network.wait_until_in_step(20)
        network.wait_until_active()
        yield network


def replace(load: Load, network: Network, passes: dict[str, Path]) -> None:
    """New workers and clients with passes take the place of those without."""
    plain_workers, plain_clients = dict(load.workers), dict(load.clients)
    for at in BROKERS:
        load.worker(f"w-keys-{at}", at, pass_file=passes["gpu"])
    load.wait_until_under_way()
    for worker in plain_workers.values():
        worker.signal(signal.SIGTERM)
        assert worker.wait(60) == 0, worker.output
    for at in BROKERS:
        load.client(f"c-keys-{at}", at, pass_file=passes["shop"])
    load.wait_until_under_way()
    for client in plain_clients.values():
        client.signal(signal.SIGTERM)
        assert client.wait(60) == 0, client.output


def all_go_on(load: Load, prefix: str) -> None:
    now = time.monotonic()
    for name in load.clients:
        if name.startswith(prefix):
            load.success_after(name, now)


def is_kept_out(network: Network, identity: str) -> bool:
    """Whether somebody without a key is, who comes from another machine if there is one."""
    with network.lan.inside("stranger"):
        return not is_let_in(network[identity].frontend)


def test_a_network_without_keys_gets_some_and_a_broker_another_one(network: Network, tmp_path: Path) -> None:
    b1, b2 = network["b1"], network["b2"]
    network.lan.machine("stranger")
    assert not is_kept_out(network, "b1")
    load = Load(network, tmp_path)
    for at in BROKERS:
        load.worker(f"w-plain-{at}", at)
    load.wait_until_under_way()
    for at in BROKERS:
        load.client(f"c-plain-{at}", at)
    load.wait_until_under_way()

    # 1. Brokers accept keys, and use them among themselves.
    b1.cli("config", "set", "family/main", "keys=remote", "--wait", "20")
    all_go_on(load, "c-plain")
    # 2. Everybody gets a pass.
    passes = {name: tmp_path / f"{name}.pass" for name in ("shop", "gpu")}
    b1.cli("pass", "new", "shop", "--call", "once", "--out", str(passes["shop"]), "--wait", "20")
    b1.cli("pass", "new", "gpu", "--serve", "once", "--out", str(passes["gpu"]), "--wait", "20")
    replace(load, network, passes)
    # 3. Nobody comes without one any more.
    for member in (b1, b2):
        member.broker.signal(signal.SIGTERM)
        assert member.broker.wait(60) == 0, member.broker.output
        member.start()
        wait_until(member.is_active, 20, f"{member.identity} active again")
        all_go_on(load, "c-keys")
    if isinstance(network.lan, Namespaces):
        assert is_kept_out(network, "b1")
        assert is_kept_out(network, "b2")

    # A broker gets another key: it leaves the network, and joins it again as the same one.
    b1.cli("broker-admin", "drain", "b2", "--wait", "20")
    all_go_on(load, "c-keys")
    b2.broker.signal(signal.SIGTERM)
    assert b2.broker.wait(60) == 0, b2.broker.output
    b1.cli("broker-admin", "forget", "b2", "--force")
    former_key = (b2.path / "broker.key").read_bytes()
    b2.path.rename(tmp_path / "former")
    invitation = tmp_path / "b2.invitation"
    b1.cli("invite", str(b1.path), "--out", str(invitation))
    place = ("--identity", "b2", "--host", b2.machine.host, *port_flags(b2.ports))
    b2.start("--join", str(invitation), *place)
    assert (b2.path / "broker.key").read_bytes() != former_key
    wait_until(b2.is_active, 20, "b2 active again")
    all_go_on(load, "c-keys")
    # Who was told of its former key goes to the other broker, and hears of the new one there.
    late = load.client("c-keys-late", "b2", "b1", pass_file=passes["shop"])
    all_go_on(load, "c-keys")
    assert late.running

    load.stop()
    outcomes = load.outcomes()
    print(f"\n{dict(outcomes)}")
    # A client that two brokers refuse within a second has to ask again itself; how often it does is its own affair.
    assert not set(outcomes) - {("OK", "-"), ("REJECTED", "disabled")}, "nobody is left in doubt"
