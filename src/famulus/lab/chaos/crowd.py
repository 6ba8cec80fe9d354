"""All programs of a chaos run: brokers, workers that do not all start with the same broker, and likewise clients."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from pathlib import Path

from famulus.lab.chaos.lan import Loopback as Lan
from famulus.lab.chaos.lan import Machine
from famulus.lab.chaos.network import Broker, Network, Program


class Worker(Program):
    def __init__(self, name: str, folder: Path, machine: Machine, backends: str) -> None:
        self.ledger = folder / f"{name}.ledger"
        super().__init__(name, folder, machine, "famulus.lab.chaos.worker", backends, str(self.ledger), "8")


class Client(Program):
    """Each of its lives has a ledger of its own: tasks that were open when a life was killed have no outcome."""

    def __init__(self, name: str, folder: Path, machine: Machine, frontends: str, callers: int) -> None:
        super().__init__(name, folder, machine)
        self._frontends = frontends
        self._callers = callers
        #: By ledger, whether that life was killed.
        self.ledgers: dict[Path, bool] = {}

    def command(self) -> Sequence[str]:
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


class Crowd(Network):
    def __init__(self, folder: Path, lan: Lan, brokers: int, workers: int, clients: int, callers: int) -> None:
        #: All brokers write to it.
        self.journal = folder / "journal"
        # The last one is of another family, on which the first one falls back.
        families = ["main"] * (brokers - 1) + ["reserve"]
        known = [_broker(f"b{number}", family, folder, lan) for number, family in enumerate(families, 1)]
        super().__init__(lan, "chaos", known)
        self.workers = {
            (name := f"w{number}"): Worker(name, folder, lan.machine(name), self._from(number, "backend"))
            for number in range(1, workers + 1)
        }
        self.clients = {
            (name := f"c{number}"): Client(name, folder, lan.machine(name), self._from(number, "frontend"), callers)
            for number in range(1, clients + 1)
        }

    def _from(self, number: int, port: str) -> str:
        """All of them, separated by commas, but not always with the same one first."""
        addresses = [broker.address(port) for broker in self.brokers.values()]
        first = number % len(addresses)
        return ",".join(addresses[first:] + addresses[:first])

    @property
    def programs(self) -> list[Program]:
        return [*self.brokers.values(), *self.workers.values(), *self.clients.values()]

    def __getitem__(self, name: str) -> Program:
        return next(program for program in self.programs if program.name == name)

    def start_brokers(self) -> None:
        self.found()
        for broker in self.brokers.values():
            broker.start()
            broker.wait_until_ready()

    def start_others(self) -> None:
        for program in (*self.workers.values(), *self.clients.values()):
            program.start()

    def tend(self, now_s: float) -> list[str]:
        """Start again what we ended, if its time has come; returns who ended without being asked to."""
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
            program.kill()
        for program in self.programs:
            program.stop(0)
        self.lan.close()


def _broker(name: str, family: str, folder: Path, lan: Lan) -> Broker:
    machine = lan.machine(name)
    web = ("--http-host", machine.host, "--http-port", "0")
    journal = ("--journal-folder", str(folder / "journal"))
    return Broker(name, family, folder, machine, lan.ports(), *web, *journal, "--drain-ms", "3000")
