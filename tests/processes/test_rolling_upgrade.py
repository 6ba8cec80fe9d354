"""The brokers of a family are stopped and started again, one after the other, under load: no client notices.

So a new version is brought in: see docs/deployment.md.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.processes.conftest import wait_until
from tests.processes.loads import Load
from tests.processes.networks import Network

FAMILY = ("b1", "b2", "b3")
#: A client that was refused by two brokers within seconds has to try again.
REJECTED_PART = 0.01


@pytest.fixture(scope="module")
def trio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    """Three brokers of a family. Each test leaves it whole."""
    with ExitStack() as closing:
        network = Network(tmp_path_factory.mktemp("trio"))
        closing.callback(network.close)
        network.found("b1")
        for identity in ("b2", "b3"):
            network.join(identity, wait=False)
        for member in network.members.values():
            member.broker.wait_until_ready(60)
        network.wait_until_active(30)
        network.wait_until_in_step(20)
        yield network


@pytest.fixture
def load(trio: Network, tmp_path: Path) -> Iterator[Load]:
    load = Load(trio, tmp_path)
    yield load
    load.close()


def under_way(load: Load) -> None:
    for identity in FAMILY:
        load.worker(f"w-{identity}", identity)
    load.wait_until_under_way()  # or else nobody would know the service that clients ask for
    for identity in FAMILY:
        load.client(f"c-{identity}", identity)
    load.wait_until_under_way()


def wait_until_all_go_on(load: Load) -> None:
    """Each client has had a success with a task that it sent after this."""
    now = time.monotonic()
    for name in load.clients:
        load.success_after(name, now)


def stop_and_start(network: Network, identity: str) -> None:
    """As systemd and Kubernetes do it: with SIGTERM, and again when it has ended."""
    member = network[identity]
    member.broker.signal(signal.SIGTERM)
    assert member.broker.wait(60) == 0, member.broker.output
    member.start()
    wait_until(member.is_active, 20, f"{identity} active again")
    network.wait_until_in_step(20)


def hold_to_account(load: Load) -> None:
    load.stop()
    outcomes = load.outcomes()
    print(f"\n{dict(outcomes)}")
    assert not {outcome for outcome, _ in outcomes} - {"OK", "REJECTED"}, "nobody is left in doubt"
    rejected = sum(count for (outcome, _), count in outcomes.items() if outcome == "REJECTED")
    assert rejected < outcomes["OK", "-"] * REJECTED_PART, "who tries again seldom has to"


def test_each_broker_in_turn_by_sigterm_alone(trio: Network, load: Load) -> None:
    under_way(load)
    for identity in FAMILY:
        stop_and_start(trio, identity)
        wait_until_all_go_on(load)
    hold_to_account(load)


def test_brokers_in_turn_drained_by_an_admin_first(trio: Network, load: Load) -> None:
    under_way(load)
    for member, other in ((trio["b1"], trio["b3"]), (trio["b2"], trio["b1"])):
        other.cli("broker-admin", "drain", member.identity, "--wait", "20")
        wait_until(lambda member=member: not member.is_active(), 20, f"{member.identity} drained")  # type: ignore[misc]
        wait_until_all_go_on(load)
        member.broker.signal(signal.SIGTERM)
        assert member.broker.wait(60) == 0, member.broker.output
        member.start()
        assert not member.is_active(), "what an admin wants of it outlasts its restart"
        other.cli("broker-admin", "enable", member.identity, "--wait", "20")
        wait_until(member.is_active, 20, f"{member.identity} active again")
        wait_until_all_go_on(load)
    hold_to_account(load)
