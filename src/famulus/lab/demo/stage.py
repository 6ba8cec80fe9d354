"""The processes of the demo, and the network between them: brokers with their folders, workers, an admin."""

from __future__ import annotations

import asyncio
from pathlib import Path
from signal import SIGTERM

from famulus.admin.administration import Shown
from famulus.errors import LabFailed
from famulus.lab.chaos.edits import Admin
from famulus.lab.chaos.lan import Loopback, Machine
from famulus.lab.chaos.network import PORTS, Broker, Network, Program
from famulus.lab.demo import cast
from famulus.lab.processes import free_ports
from famulus.lab.relay import Relay

STOP_S = 10.0
#: Within this time an edit must be acknowledged.
EDIT_S = 20.0
#: What brokers tell each other goes over these.
BETWEEN_BROKERS = ("config-pub", "peer")


class Stage(Network):
    def __init__(self, folder: Path, journal: Path) -> None:
        """`folder` is for what brokers keep. All share one journal: the names of its files say whose they are."""
        self._http_port, *ports = free_ports(1 + len(PORTS))
        common = ("--http-port", str(self._http_port), "--journal-folder", str(journal), "--drain-ms", "2000")
        brokers = [
            Broker(name, family, folder, Machine(cast.known_host(name)), ports, *_hosts(name), *common)
            for name, family in cast.BROKERS.items()
        ]
        super().__init__(Loopback(), cast.ADMIN, brokers)
        self._relays = {
            (broker, name): Relay(cast.known_host(broker), cast.own_host(broker), port)
            for broker in cast.BROKERS
            for name, port in zip(PORTS, ports, strict=True)
        }
        self._admin = Admin(self)
        self.workers = {each.name: self._worker(each, folder) for each in cast.WORKERS}

    def _worker(self, worker: cast.Worker, folder: Path) -> Program:
        backend = self.brokers[worker.home].address("backend")
        what = ("worker", f"famulus.lab.demo.cast:{worker.service}", "--broker", backend, "--identity", worker.name)
        # Whoever is killed here is missed at once; one that only waits for a busy machine is not to be given up.
        patience = ("--heartbeat-ms", "5000")
        return Program(worker.name, folder, Machine(cast.own_host(worker.home)), "famulus", *what, *patience)

    def dashboard(self, broker: str) -> str:
        return f"http://{cast.own_host(broker)}:{self._http_port}/"

    # -- up and down --------------------------------------------------------------------------------------------

    async def set_up(self) -> None:
        await asyncio.gather(*(relay.open() for relay in self._relays.values()))
        await asyncio.to_thread(self.found)
        # One after the other: each should know those before it when it says that it is ready.
        for broker in self.brokers.values():
            await self.start(broker)
        await self.put(cast.ANN, "family/main", {"fallback_families": ["reserve"]})
        for service in cast.SERVICES:
            await self.put(cast.ANN, f"service/{service.name}", {"delivery": service.delivery})
        await asyncio.gather(*(self.start(worker) for worker in self.workers.values()))

    async def tear_down(self) -> None:
        """Workers first, so that brokers have nothing left to wait for."""
        for group in (self.workers, self.brokers):
            # All at once: nobody keeps waiting for messages from somebody who is not stopped yet.
            for program in group.values():
                program.send("supervisor", SIGTERM)
            await asyncio.gather(*(asyncio.to_thread(program.stop, STOP_S) for program in group.values()))
        await asyncio.gather(*(relay.close() for relay in self._relays.values()), return_exceptions=True)

    async def start(self, program: Program) -> None:
        program.start()
        await asyncio.to_thread(program.wait_until_ready)

    # -- what happens to it -------------------------------------------------------------------------------------

    def ready_again(self, worker: cast.Worker) -> asyncio.Task[float]:
        """The instant when it next says that it is, on the monotonic clock."""
        program = self.workers[worker.name]
        said = len(program.said)
        return asyncio.create_task(asyncio.to_thread(program.wait_until_says, "is ready again", said))

    def _between_brokers(self) -> list[Relay]:
        return [self._relays[broker, name] for broker in cast.BROKERS for name in BETWEEN_BROKERS]

    async def part(self) -> None:
        """Brokers no longer hear from each other. Clients and workers get through."""
        await asyncio.gather(*(relay.cut() for relay in self._between_brokers()))

    def heal(self) -> None:
        for relay in self._between_brokers():
            relay.heal()

    # -- its config ---------------------------------------------------------------------------------------------

    async def put(self, at: str, key: str, value: object) -> None:
        """The admin sets a key at this broker, whatever it was."""
        await asyncio.to_thread(self._admin.put_for_sure, at, key, value, EDIT_S)

    async def agree(self, *brokers: str) -> bool:
        """Whether they have the same config."""
        return await asyncio.to_thread(self._admin.agree, brokers)

    async def shown(self, at: str) -> Shown:
        """The config as this broker has it."""
        shown = await asyncio.to_thread(self._admin.shown, at)
        if shown is None:
            raise LabFailed(f"{at} does not show its config")
        return shown


def _hosts(broker: str) -> tuple[str, ...]:
    """It listens where only the relays find it. If an option is given twice, the last one counts."""
    own = cast.own_host(broker)
    return ("--host", own, "--http-host", own, "--advertised-host", cast.known_host(broker))
