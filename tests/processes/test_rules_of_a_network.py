"""What the config says about brokers and workers, with real brokers and by the commands that an admin types."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zmq
from tests.processes import warm
from tests.processes.conftest import BrokerProcess, Process, retry, wait_until
from tests.processes.ports import free_ports

from famulus import Client, Rejected

PASSWORD = "correct horse"
MODULE = """
from famulus import Worker

worker = Worker(slots=2, identity="w1")

@worker.service("echo")
def echo(body):
    return body
"""


class Member:
    """A broker of the network, its folder and its ports."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = path.name
        self.frontend, self.backend, self.news, self.peers = free_ports(4)

    @property
    def ports(self) -> list[str]:
        names = ("--frontend-port", "--backend-port", "--config-pub-port", "--peer-port")
        numbers = (self.frontend, self.backend, self.news, self.peers)
        return [word for name, port in zip(names, numbers, strict=True) for word in (name, str(port))]

    def admin(self, *arguments: str, code: int = 0) -> Any:
        """What a command of an admin says at this broker."""
        done = famulus(*arguments, "--broker", f"127.0.0.1:{self.frontend}", "--user", "ada", "--json", code=code)
        return json.loads(done.stdout) if done.stdout else done.stderr

    def brokers(self) -> dict[str, Any]:
        found: dict[str, Any] = self.admin("config", "show", "nothing")["brokers"]
        return found


def famulus(*arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "FAMULUS_ADMIN_PASSWORD": PASSWORD}
    env.pop("FAMULUS_JOIN_SECRET", None)
    command = [sys.executable, "-m", "famulus", *arguments]
    done = warm.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == code, done
    return done


@pytest.fixture
def first(brokers: Callable[..., BrokerProcess], tmp_path: Path) -> Member:
    """The first broker of a network, with admin ada."""
    member = Member(tmp_path / "b1")
    famulus("init", str(member.path), "--identity", "b1", "--admin", "ada", *member.ports)
    brokers("--folder", str(member.path), "--routers", "1")
    return member


@pytest.fixture
def second(first: Member, brokers: Callable[..., BrokerProcess], tmp_path: Path) -> Member:
    """Another one, which joined by its key."""
    member = Member(tmp_path / "b2")
    join = ("--folder", str(member.path), "--join", f"127.0.0.1:{first.peers}", "--identity", "b2", *member.ports)
    key = famulus("broker", "--folder", str(member.path), "--show-key").stdout.strip()
    refused = famulus("broker", *join, code=2).stderr.splitlines()[-1]
    assert refused == (
        "famulus: the network will not have this broker: not_allowed: the broker's key is not trusted here; an admin "
        f"has to say so first: famulus broker-admin trust {key}; or join with an invitation: famulus invite"
    )
    first.admin("broker-admin", "trust", key, "--identity", "b2")
    network = first.admin("config", "show", "nothing")["network"]
    brokers(*join, "--network", network[:12], "--routers", "1")
    wait_until(lambda: first.brokers()["b2"]["same"] and second_knows(member), 15, "the same config at both")
    return member


def second_knows(member: Member) -> bool:
    return all(facts["alive"] and facts["same"] for facts in member.brokers().values())


def test_a_broker_for_some_services_turns_the_others_away_and_says_where_to_go(
    first: Member, second: Member, processes: Callable[..., Process], tmp_path: Path
) -> None:
    accepted = first.admin("config", "set", "broker/b2", 'services=["sum"]', "--wait", "10")
    assert accepted["digest"] == first.admin("config", "show", "nothing")["digest"]
    (tmp_path / "echoes.py").write_text(MODULE)
    backends = [f"tcp://127.0.0.1:{member.backend}" for member in (second, first)]
    worker = processes(sys.executable, "-m", "famulus", "worker", "echoes", "--broker", backends[0], cwd=tmp_path)
    worker.wait_for_line("says: no_service: broker b2 does not serve 'echo'; b1 would")
    worker.wait_for_line(f"worker w1 is ready: echo at {backends[1]}")
    with Client(f"127.0.0.1:{second.frontend}") as client, pytest.raises(Rejected) as refused:
        client.request("echo", b"here?")
    assert refused.value.reason == "no_service: broker b2 does not serve 'echo'; b1 would"
    with Client(f"127.0.0.1:{first.frontend}") as client:
        assert client.request("echo", b"here") == b"here"


def test_a_worker_on_the_list_is_ignored_by_the_whole_family_until_it_is_cleared(
    first: Member, second: Member, processes: Callable[..., Process], tmp_path: Path
) -> None:
    (tmp_path / "echoes.py").write_text(MODULE)
    backend = f"127.0.0.1:{first.backend}"
    worker = processes(sys.executable, "-m", "famulus", "worker", "echoes", "--broker", backend, cwd=tmp_path)
    worker.wait_for_line("worker w1 is ready: echo")
    second.admin("errors", "add", "w1", "--wait", "10")
    worker.wait_for_line("says: not_allowed: this worker is on the list of error workers of the config")
    for member in (first, second):
        assert member.admin("errors", "list")["workers"][0]["by"] == "family/main"
        with Client(f"127.0.0.1:{member.frontend}") as client, pytest.raises(Rejected):
            client.request("echo", b"anybody?", timeout=1.0)
    assert first.admin("errors", "clear", "w1")["cleared"] == 1
    worker.wait_for_line("worker w1 is ready again: echo", 30)
    with Client(f"127.0.0.1:{first.frontend}") as client:
        retry(client, "echo")
    assert first.admin("errors", "list")["workers"] == []


def test_a_broker_hears_news_where_its_config_tells_it_to(first: Member) -> None:
    """A forwarder, say; here it is an XPUB, which is told of subscriptions."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    try:
        forwarder = context.socket(zmq.XPUB)
        port = forwarder.bind_to_random_port("tcp://127.0.0.1")
        first.admin("config", "set", "broker/b1", f"config_sub_ports=[{port}]")
        assert forwarder.poll(15_000), "nobody subscribes"
        assert forwarder.recv() == b"\x01"
        first.admin("config", "set", "broker/b1", "config_sub_ports=")
        assert forwarder.poll(15_000), "nobody goes"
        assert forwarder.recv() == b"\x00"
    finally:
        context.destroy(linger=0)


def test_a_broker_that_was_forgotten_has_no_say_any_more(first: Member, second: Member) -> None:
    second.admin("config", "set", "service/echo", "timeout_ms=5000", "--wait", "10")
    assert "is alive" in famulus_refuses(first, "broker-admin", "forget", "b2")
    first.admin("broker-admin", "forget", "b2", "--force")
    assert set(first.brokers()) == {"b1"}
    shown = first.admin("config", "show", "service/")["keys"]
    assert shown["service/echo"]["value"] == {"timeout_ms": 5000}, "what it accepted before is kept"
    # It hears of it, since it still listens; and says so to its admins.
    wait_until(lambda: "b2" not in second.brokers(), 15, "that b2 knows")
    refused = second.admin("config", "set", "service/echo", "timeout_ms=1", code=1)
    assert "not known to the network" in refused["reason"]
    assert first.admin("config", "get", "service/echo")["value"] == {"timeout_ms": 5000}


def famulus_refuses(member: Member, *arguments: str) -> str:
    address = f"127.0.0.1:{member.frontend}"
    return famulus(*arguments, "--broker", address, "--user", "ada", code=1).stderr
