"""The script that starts a pod's broker, with real brokers: it makes a network, joins one, or goes on as a member.

The pods' names are such that name and service together are an address of loopback, on which each has ports of its own.
"""

from __future__ import annotations

import os
import random
import shlex
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.processes.conftest import Process, wait_until

FOLDER = Path(__file__).parents[2] / "deploy/kubernetes"
SECRET = "only for this test, and long enough for it"


class Pod:
    """A folder that stands for the file system of a pod."""

    def __init__(self, path: Path, name: str, pods: list[str]) -> None:
        self.name, self.host = name, f"{name}.1"
        self._path = path
        self._pods = pods
        self.volume = path / "var/lib/famulus"
        for folder in (self.volume, path / "etc/famulus", path / "run/secrets/famulus", path / "bin"):
            folder.mkdir(parents=True)
        settings = (FOLDER / "broker.toml").read_text("utf-8")
        settings = settings.replace('"0.0.0.0"', f'"{self.host}"') + "http = false\njournal = false\n"
        (path / "etc/famulus/broker.toml").write_text(settings)
        (path / "run/secrets/famulus/join.secret").write_text(SECRET)
        (path / "run/secrets/famulus/admin.password").write_text("a password")
        self._program("famulus", "-m", "famulus")
        self._program("python")
        script = (FOLDER / "start.sh").read_text("utf-8")
        for place in ("/var/lib/famulus", "/etc/famulus", "/run/secrets/famulus"):
            script = script.replace(f"={place}", f"={path}{place}")
        (path / "start.sh").write_text(script)

    def _program(self, name: str, *arguments: str) -> None:
        program = self._path / "bin" / name
        program.write_text(f'#!/bin/sh\nexec {shlex.join([sys.executable, *arguments])} "$@"\n')
        program.chmod(0o755)

    def start(self) -> Process:
        env = {"POD": self.name, "PODS": " ".join(self._pods), "SERVICE": "1"}
        path = f"{self._path / 'bin'}:{os.environ['PATH']}"
        return Process("sh", str(self._path / "start.sh"), env={**env, "PATH": path})

    @property
    def address(self) -> str:
        return f"tcp://{self.host}:7100"


@pytest.fixture
def pods(tmp_path: Path) -> list[Pod]:
    # Tests of two runs do not meet.
    first = f"127.{random.randint(10, 250)}.{random.randint(1, 250)}"
    names = [first, f"{first[:-1]}{(int(first[-1]) + 1) % 10}"]
    return [Pod(tmp_path / name, name, names) for name in names]


@pytest.fixture
def started() -> Iterator[Callable[[Pod], Process]]:
    processes: list[Process] = []

    def start(pod: Pod) -> Process:
        processes.append(pod.start())
        return processes[-1]

    yield start
    for process in processes:
        process.close()


def test_the_first_founds_the_second_joins_and_both_come_back(
    pods: list[Pod], started: Callable[[Pod], Process]
) -> None:
    first, second = pods
    early = started(second)
    assert early.wait(30) == 1, "there is nobody to join yet"
    assert f"there is no broker yet whose network {second.name} could join" in early.output

    founder = started(first)
    founder.wait_for_line(rf"^network \w+ is made: broker {first.name} of family main, admin admin$", 30)
    founder.wait_for_line(f"is ready: clients {first.address}, ", 30)
    assert not (first.volume / "broker.invitation").exists(), "pods have the secret, and it would lie about"
    joiner = started(second)
    joiner.wait_for_line(f"^{second.name} is a member of network ", 30)
    joiner.wait_for_line(f"is ready: clients {second.address}, ", 30)
    wait_until(lambda: "digest" in joiner.output, 20, "a config of its own")

    for process in (founder, joiner):
        process.signal(signal.SIGTERM)
    for process in (founder, joiner):
        assert process.wait(30) == 0, "the supervisor itself had the signal, and drained"
    again = started(first)
    again.wait_for_line(f"is ready: clients {first.address}, ", 30)
    assert "is made" not in again.output


def test_a_founder_that_lost_its_volume_makes_no_second_network(
    pods: list[Pod], started: Callable[[Pod], Process], tmp_path: Path
) -> None:
    first, second = pods
    founder = started(first)
    founder.wait_for_line("is ready: ", 30)
    joiner = started(second)
    joiner.wait_for_line("is ready: ", 30)
    founder.signal(signal.SIGTERM)
    assert founder.wait(30) == 0
    (first.volume / "broker").rename(tmp_path / "lost")
    again = started(first)
    assert again.wait(60) == 2
    assert "the network will not have this broker" in again.output, "its name is another key's"
    assert not (first.volume / "broker/network.json").exists()
