"""The processes of a chaos run on their machines: started, looked at, killed, stopped, and started again."""

from __future__ import annotations

import re
import secrets
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from time import monotonic, sleep

from famulus.errors import ChaosFailed
from famulus.lab.chaos.lan import Loopback as Lan
from famulus.lab.processes import broker_parts, found_network, is_alive, python, send_signal

START_S = 40.0
ADMIN = "chaos"
#: A process that was killed or stopped may be missed, killed or mourned in a log for so long.
AFTERMATH_S = 15.0

_PORTS = ("frontend", "backend", "config-pub", "peer")


class Program:
    """A process that is started again after each death, with one log for all its lives."""

    def __init__(self, name: str, folder: Path, lan: Lan) -> None:
        self.name = name
        self.folder = folder
        self.log = folder / f"{name}.log"
        self.machine = lan.machine(name)
        self._process: subprocess.Popen[bytes] | None = None
        #: Processes of the life before, which may still hold its ports.
        self._former: list[int] = []
        #: When to start it again, if we ended it; while it runs, never.
        self.due_s: float | None = None
        self.lives = 0

    def command(self) -> list[str]:
        raise NotImplementedError

    def start(self) -> None:
        self.lives += 1
        self.due_s = None
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

    def pids(self, part: str) -> list[int]:
        """Those that live now. `broker` is all of them, `supervisor` the one that we started, others are its children.

        A program that is one process is its own only part.
        """
        return [self._process.pid] if self._process is not None and self._process.poll() is None else []

    def send(self, part: str, number: signal.Signals) -> list[int]:
        pids = self.pids(part)
        send_signal(pids, number)
        return pids

    def end(self, part: str, number: signal.Signals, again_in_s: float) -> None:
        """End all of it, by this signal to this part; it is started again later."""
        self._former = self.pids("broker")
        self.due_s = monotonic() + again_in_s
        self.send(part, number)

    def has_ended(self) -> bool:
        return not self.pids("supervisor") and not any(map(is_alive, self._former))

    def last_line(self) -> str:
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return lines[-1] if lines else "it said nothing"

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
    def __init__(self, name: str, family: str, folder: Path, lan: Lan) -> None:
        super().__init__(name, folder, lan)
        self.family = family
        self.host = self.machine.host
        self.ports = dict(zip(_PORTS, lan.ports(), strict=True))
        #: What its first start needs besides, to join.
        self.joins: list[str] = []

    @property
    def home(self) -> Path:
        return self.folder / self.name

    def address(self, port: str) -> str:
        return f"tcp://{self.host}:{self.ports[port]}"

    def place(self) -> list[str]:
        ports = [word for name, port in self.ports.items() for word in (f"--{name}-port", str(port))]
        return ["--identity", self.name, "--family", self.family, "--host", self.host, *ports]

    def command(self) -> list[str]:
        web = ["--http-host", self.host, "--http-port", "0"]
        journal = self.folder / f"{self.name}.journal"
        own = ["--folder", str(self.home), "--journal-folder", str(journal), "--routers", "1", *web]
        joins, self.joins = self.joins, []
        return ["famulus", "broker", *own, "--drain-ms", "3000", *joins]

    def pids(self, part: str) -> list[int]:
        itself = super().pids(part)
        children = broker_parts(itself[0]) if itself and part != "supervisor" else {}
        if part in ("broker", "supervisor"):
            return [*itself, *children]
        return [pid for pid, module in children.items() if module == part]

    def wait_until_ready(self) -> None:
        deadline_s = monotonic() + START_S
        while not re.search(r"broker \S+ is ready", self.log.read_text()):
            if self.exit_code is not None or monotonic() > deadline_s:
                raise ChaosFailed(f"{self.name} did not start: {self.last_line()}")
            sleep(0.02)


class Worker(Program):
    def __init__(self, name: str, folder: Path, lan: Lan, backends: Sequence[str]) -> None:
        super().__init__(name, folder, lan)
        self.ledger = folder / f"{name}.ledger"
        self._backends = ",".join(backends)

    def command(self) -> list[str]:
        return ["famulus.lab.chaos.worker", self._backends, str(self.ledger), "8"]


class Client(Program):
    """Each of its lives has a ledger of its own: what a life that was killed had open has no outcome."""

    def __init__(self, name: str, folder: Path, lan: Lan, frontends: Sequence[str], callers: int) -> None:
        super().__init__(name, folder, lan)
        self._frontends = ",".join(frontends)
        self._callers = callers
        #: By ledger, whether that life was killed.
        self.ledgers: dict[Path, bool] = {}

    def command(self) -> list[str]:
        life = f"{self.name}.{self.lives}"
        self.ledgers[self.folder / f"{life}.ledger"] = False
        return ["famulus.lab.chaos.client", self._frontends, str(self.ledger), str(self._callers), life]

    @property
    def ledger(self) -> Path:
        """That of its present life."""
        return next(reversed(self.ledgers))

    def end(self, part: str, number: signal.Signals, again_in_s: float) -> None:
        self.ledgers[self.ledger] |= number is signal.SIGKILL
        super().end(part, number, again_in_s)


class Network:
    def __init__(self, folder: Path, lan: Lan, brokers: int, workers: int, clients: int, callers: int) -> None:
        self.lan = lan
        self.password = secrets.token_urlsafe(16)
        # The last one is of another family, on which the first one falls back.
        families = ["main"] * (brokers - 1) + ["reserve"]
        known = [Broker(f"b{number}", family, folder, lan) for number, family in enumerate(families, 1)]
        backends = [broker.address("backend") for broker in known]
        frontends = [broker.address("frontend") for broker in known]
        self.brokers = {broker.name: broker for broker in known}
        self.workers = {
            (name := f"w{number}"): Worker(name, folder, lan, _from(backends, number))
            for number in range(1, workers + 1)
        }
        self.clients = {
            (name := f"c{number}"): Client(name, folder, lan, _from(frontends, number), callers)
            for number in range(1, clients + 1)
        }

    @property
    def programs(self) -> list[Program]:
        return [*self.brokers.values(), *self.workers.values(), *self.clients.values()]

    def __getitem__(self, name: str) -> Program:
        return next(program for program in self.programs if program.name == name)

    def start_brokers(self) -> None:
        first = next(iter(self.brokers.values()))
        if wrong := found_network(first.home, self.password, "--admin", ADMIN, *first.place()):
            raise ChaosFailed(f"famulus init: {wrong}")
        where = f"{first.host}:{first.ports['peer']}"
        for broker in self.brokers.values():
            if broker is not first:
                broker.joins = ["--join", where, "--secret-file", str(first.home / "join.secret"), *broker.place()]
            broker.start()
            broker.wait_until_ready()

    def start_others(self) -> None:
        for program in (*self.workers.values(), *self.clients.values()):
            program.start()

    def tend(self, now_s: float) -> list[str]:
        """Start again what we ended, if its time has come; says who ended without being asked to."""
        surprises = []
        for program in self.programs:
            if program.exit_code is None:
                continue
            if program.due_s is None:
                surprises.append(f"{program.name} ended by itself with {program.exit_code}: {program.last_line()}")
                program.due_s = now_s
            if program.due_s <= now_s and program.has_ended():
                program.start()
        return surprises

    def close(self) -> None:
        """Whatever state it is in."""
        for program in self.programs:
            program.send("broker", signal.SIGCONT)
            program.send("broker", signal.SIGKILL)
        for program in self.programs:
            program.stop(0)
        self.lan.close()


def _from(addresses: list[str], number: int) -> list[str]:
    """All of them, and not everybody begins with the same one."""
    first = number % len(addresses)
    return addresses[first:] + addresses[:first]
