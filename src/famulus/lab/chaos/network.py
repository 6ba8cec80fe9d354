"""Brokers of a network as processes on their machines, with one admin: founded, joined, killed and started again."""

from __future__ import annotations

import re
import secrets
import signal
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from time import monotonic, sleep

from famulus.errors import LabFailed
from famulus.lab.chaos.lan import Loopback as Lan
from famulus.lab.chaos.lan import Machine
from famulus.lab.processes import broker_parts, found_network, is_alive, python, send_signal

START_S = 40.0
PORTS = ("frontend", "backend", "config-pub", "peer")


class Program:
    """A process that is started again after each death, with one log for all its lives."""

    #: What it says when it has started.
    READY = "is ready"

    def __init__(self, name: str, folder: Path, machine: Machine, *command: str) -> None:
        """`command`: a module and its arguments."""
        self.name = name
        self.folder = folder
        self.log = folder / f"{name}.log"
        self.machine = machine
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None
        #: Processes of its previous life, which may still hold its ports.
        self._former: list[int] = []
        #: Where in its log its present life begins.
        self._born = 0
        #: When to start it again, if we ended it; None while it runs.
        self.due_s: float | None = None
        self.lives = 0

    def command(self) -> Sequence[str]:
        return self._command

    def start(self) -> None:
        self.lives += 1
        self.due_s = None
        self._born = len(self.said)
        with self.log.open("ab") as out:
            self._process = subprocess.Popen(
                [*self.machine.enter, *python(*self.command())],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                # Ctrl-C is ours alone: we end everybody in order.
                start_new_session=True,
            )

    @property
    def exit_code(self) -> int | None:
        return self._process.poll() if self._process is not None else None

    @property
    def alive(self) -> bool:
        return self._process is not None and self.exit_code is None

    def pids(self, part: str) -> list[int]:
        """Those that are alive. `broker` is all of them, `supervisor` the one that we started, others are its children.

        A program with a single process is its own only part.
        """
        return [self._process.pid] if self._process is not None and self.alive else []

    def send(self, part: str, number: signal.Signals) -> list[int]:
        pids = self.pids(part)
        send_signal(pids, number)
        return pids

    def kill(self) -> None:
        """All of it at once, as if its machine were gone."""
        self.send("broker", signal.SIGKILL)

    def end(self, part: str, number: signal.Signals, again_in_s: float) -> None:
        """End all of it, by this signal to this part; it is started again later."""
        self._former = self.pids("broker")
        self.due_s = monotonic() + again_in_s
        self.send(part, number)

    def has_ended(self) -> bool:
        return not self.pids("supervisor") and not any(map(is_alive, self._former))

    # -- its output ---------------------------------------------------------------------------------------------

    @property
    def said(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def last_line(self) -> str:
        return (self.said.splitlines() or ["it said nothing"])[-1]

    def wait_until_ready(self) -> None:
        self.wait_until_says(self.READY, self._born)

    def wait_until_says(self, pattern: str, since: int) -> float:
        """Looks at what it said from there on. Returns the instant when we read it, on the monotonic clock."""
        deadline_s = monotonic() + START_S
        while not re.search(pattern, self.said[since:]):
            if not self.alive or monotonic() > deadline_s:
                raise LabFailed(f"{self.name} did not start: {self.last_line()}")
            sleep(0.02)
        return monotonic()

    def stop(self, within_s: float) -> bool:
        """Ask it to end; False if it had to be killed."""
        if self._process is None:
            return True
        everything = self.pids("broker")
        self.send("supervisor", signal.SIGTERM)
        try:
            self._process.wait(within_s)
        except subprocess.TimeoutExpired:
            return False
        finally:
            send_signal(everything, signal.SIGKILL)
            self._process.wait()
        return True


class Broker(Program):
    READY = r"broker \S+ is ready"

    def __init__(
        self, name: str, family: str, folder: Path, machine: Machine, ports: Sequence[int], *options: str
    ) -> None:
        """`machine` and `ports` are where others find it; `options` are given to each of its lives."""
        super().__init__(name, folder, machine)
        self.family = family
        self.home = folder / name
        self._ports = dict(zip(PORTS, ports, strict=True))
        self._options = options
        #: What its first start needs in addition, to join.
        self.joins: list[str] = []

    def where(self, port: str) -> str:
        return f"{self.machine.host}:{self._ports[port]}"

    def address(self, port: str) -> str:
        return f"tcp://{self.where(port)}"

    def place(self) -> list[str]:
        ports = [word for name, port in self._ports.items() for word in (f"--{name}-port", str(port))]
        return ["--identity", self.name, "--family", self.family, "--host", self.machine.host, *ports]

    def join(self, first: Broker) -> None:
        """With its next start."""
        secret_file = first.home / "join.secret"
        self.joins = ["--join", first.where("peer"), "--secret-file", str(secret_file), *self.place()]

    def command(self) -> Sequence[str]:
        joins, self.joins = self.joins, []
        return ["famulus", "broker", "--folder", str(self.home), "--routers", "1", *joins, *self._options]

    def pids(self, part: str) -> list[int]:
        itself = super().pids(part)
        children = broker_parts(itself[0]) if itself and part != "supervisor" else {}
        if part in ("broker", "supervisor"):
            return [*itself, *children]
        return [pid for pid, module in children.items() if module == part]


class Network:
    def __init__(self, lan: Lan, admin: str, brokers: Iterable[Broker]) -> None:
        self.lan = lan
        self.admin = admin
        self.password = secrets.token_urlsafe(16)
        self.brokers = {broker.name: broker for broker in brokers}

    def found(self) -> None:
        """With the first broker; the others join it when they start."""
        first, *others = self.brokers.values()
        if wrong := found_network(first.home, self.password, "--admin", self.admin, *first.place()):
            raise LabFailed(f"famulus init: {wrong}")
        for broker in others:
            broker.join(first)
