"""Workers and clients that keep ledgers, at the brokers of a network."""

from __future__ import annotations

import signal
from collections import Counter
from pathlib import Path

from tests.processes.conftest import HERE, Process, wait_until
from tests.processes.networks import Network

from famulus.lab.chaos.ledgers import first_success, judge, names_of_calls, read_client

#: Tasks that each client has open at a time.
CALLERS = 4


class Load:
    """Workers and clients with ledgers, on machines of their own."""

    def __init__(self, network: Network, path: Path) -> None:
        self._network = network
        self._path = path
        self.workers: dict[str, Process] = {}
        self.clients: dict[str, Process] = {}

    def worker(self, name: str, at: str, slots: int = 4, pass_file: Path | None = None) -> Process:
        script, ledger = str(HERE / "ledger_worker.py"), str(self._path / name)
        worker = self._network.run(
            name, script, self._network[at].backend, ledger, str(slots), "once", env=_env(pass_file)
        )
        self.workers[name] = worker
        return worker

    def client(self, name: str, *at: str, pass_file: Path | None = None) -> Process:
        script, ledger = str(HERE / "ledger_client.py"), str(self._path / name)
        frontends = ",".join(self._network[each].frontend for each in at)
        client = self._network.run(name, script, frontends, ledger, "once", str(CALLERS), name, env=_env(pass_file))
        self.clients[name] = client
        return client

    def wait_until_under_way(self) -> None:
        for worker in self.workers.values():
            worker.wait_for_line("is ready: ", 30)
        for name in self.clients:
            wait_until(lambda name=name: self.successes(name) > 20, 30, f"20 tasks of {name}")  # type: ignore[misc]

    def outcomes(self) -> Counter[tuple[str, str]]:
        """Of all clients: how often each outcome came, with its code."""
        return Counter((each.outcome, each.code) for name in self.clients for each in read_client(self._path / name)[1])

    def successes(self, name: str) -> int:
        return sum(each.outcome == "OK" for each in read_client(self._path / name)[1])

    def success_after(self, name: str, instant: float) -> float:
        """How long after it a task that was sent later had gone well."""
        ledger = self._path / name
        wait_until(lambda: first_success(*read_client(ledger), instant) is not None, 30, f"a success of {name}")
        return (first_success(*read_client(ledger), instant) or 0.0) - instant

    def stop(self) -> None:
        """And hold what clients were told against what workers did."""
        for client in self.clients.values():
            client.signal(signal.SIGTERM)
        for client in self.clients.values():
            assert client.wait(30) == 0, client.output
        ledgers = [read_client(self._path / name) for name in self.clients]
        sent = [each for its_sent, _ in ledgers for each in its_sent]
        ended = [each for _, its_ended in ledgers for each in its_ended]
        verdict = judge(sent, ended, names_of_calls(self._path / name for name in self.workers))
        print(f"\n{verdict}")
        assert not verdict.broken
        assert verdict.ok > 100
        self.close()

    def close(self) -> None:
        for process in (*self.clients.values(), *self.workers.values()):
            process.close()


def _env(pass_file: Path | None) -> dict[str, str] | None:
    return {"FAMULUS_PASS": str(pass_file)} if pass_file is not None else None
