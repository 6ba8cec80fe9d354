"""The network of the demo: brokers with their folders, relays between them, workers, and an admin's commands."""

from __future__ import annotations

import asyncio
import json
import secrets
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

from famulus.admin.administration import Administration, Shown
from famulus.admin.connection import AdminConnection
from famulus.admin.secret import Secret
from famulus.errors import DemoFailed
from famulus.lab.demo.actor import Actor, run
from famulus.lab.demo.cast import ADMIN, ANN, BROKERS, SERVICES, WORKERS, Broker, Worker
from famulus.lab.demo.relay import Relay

START_S = 30.0
PORTS = ("frontend", "backend", "config_pub", "peer")
#: What brokers tell each other goes over these.
BETWEEN_BROKERS = ("config_pub", "peer")


class Stage:
    def __init__(self, folder: Path, journal: Path) -> None:
        """`folder` is for what brokers keep. The journal is one for all: the names of its files say whose they are."""
        self._folder = folder
        self._journal = journal
        self._ports = {name: _free_port() for name in PORTS}
        self._http_port = _free_port()
        self._relays = {
            (broker, name): Relay(broker.known_host, broker.own_host, port)
            for broker in BROKERS
            for name, port in self._ports.items()
        }
        self._password = Secret(secrets.token_urlsafe(16))
        self._environment = {"FAMULUS_ADMIN_PASSWORD": self._password.reveal()}
        self.brokers: dict[Broker, Actor] = {}
        self.workers: dict[Worker, Actor] = {}

    def frontend(self, broker: Broker) -> str:
        return f"tcp://{broker.known_host}:{self._ports['frontend']}"

    def dashboard(self, broker: Broker) -> str:
        return f"http://{broker.own_host}:{self._http_port}/"

    # -- up and down --------------------------------------------------------------------------------------------

    async def set_up(self) -> None:
        await asyncio.gather(*(relay.open() for relay in self._relays.values()))
        await self._found()
        await self.start(ANN)
        # One after the other: each is to know those before it when it says that it is ready.
        for broker in BROKERS:
            if broker is not ANN:
                await self._join(broker)
        await self._configure()
        await asyncio.gather(*(self.hire(worker) for worker in WORKERS))

    async def tear_down(self) -> None:
        """Workers first, so that brokers have nothing left to wait for."""
        for group in (self.workers, self.brokers):
            await asyncio.gather(*(actor.stop() for actor in group.values()), return_exceptions=True)
        await asyncio.gather(*(relay.close() for relay in self._relays.values()), return_exceptions=True)

    async def _found(self) -> None:
        place = ("--identity", ANN.name, "--family", ANN.family, "--admin", ADMIN, "--host", ANN.known_host)
        ports = [word for name, port in self._ports.items() for word in (_flag(name), str(port))]
        await run("init", str(self._folder / ANN.name), *place, *ports, env=self._environment)

    async def start(self, broker: Broker, *more: str) -> None:
        """A broker that is a member, or becomes one with `more`."""
        folder = ("--folder", str(self._folder / broker.name), "--host", broker.own_host)
        http = ("--http-host", broker.own_host, "--http-port", str(self._http_port))
        journal = ("--journal-folder", str(self._journal), "--routers", "1", "--drain-ms", "2000")
        actor = await Actor.start(broker.name, "broker", *folder, *http, *journal, *more)
        former, self.brokers[broker] = self.brokers.get(broker), actor
        if former is not None:
            await former.stop()
        await actor.ready(r"broker \S+ is ready", START_S)

    async def _join(self, broker: Broker) -> None:
        config = self._folder / f"{broker.name}.toml"
        config.write_text(f'advertised_host = "{broker.known_host}"\n')
        where = f"{ANN.known_host}:{self._ports['peer']}"
        secret = str(self._folder / ANN.name / "join.secret")
        name = ("--config", str(config), "--identity", broker.name, "--family", broker.family)
        ports = [word for each, port in self._ports.items() for word in (_flag(each), str(port))]
        await self.start(broker, "--join", where, "--secret-file", secret, *name, *ports)

    async def _configure(self) -> None:
        await self.admin(ANN, "config", "set", "family/main", json.dumps({"fallback_families": ["reserve"]}))
        for service in SERVICES:
            await self.admin(ANN, "config", "set", f"service/{service.name}", f"delivery={service.delivery}")

    async def hire(self, worker: Worker) -> None:
        backend = f"tcp://{worker.home.known_host}:{self._ports['backend']}"
        what = f"famulus.lab.demo.workers:{worker.service}"
        actor = await Actor.start(worker.name, "worker", what, "--broker", backend, "--identity", worker.name)
        former, self.workers[worker] = self.workers.get(worker), actor
        if former is not None:
            await former.stop()
        await actor.ready("is ready", START_S)

    # -- what happens to it -------------------------------------------------------------------------------------

    async def part(self) -> None:
        """No broker hears of another one any more. Clients and workers get through."""
        await asyncio.gather(*(self._relays[broker, name].cut() for broker in BROKERS for name in BETWEEN_BROKERS))

    def heal(self) -> None:
        for broker in BROKERS:
            for name in BETWEEN_BROKERS:
                self._relays[broker, name].heal()

    async def admin(self, at: Broker, *command: str) -> None:
        """A command of the admin at one of the brokers."""
        await run(*command, "--broker", self.frontend(at), "--user", ADMIN, env=self._environment)

    async def shown(self, at: Broker) -> Shown:
        """The config as this broker has it."""
        return await asyncio.to_thread(self._show, at)

    def _show(self, at: Broker) -> Shown:
        # Not by a command: starting a program takes longer than what is to be measured.
        with AdminConnection(self.frontend(at)) as connection:
            connection.connect()
            return Administration(lambda command, facts: connection.ask(ADMIN, self._password, command, facts)).show()


async def until(what: str, condition: Callable[[], Awaitable[bool]], within_s: float) -> None:
    """Ask again and again."""
    try:
        async with asyncio.timeout(within_s):
            while not await condition():
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise DemoFailed(f"{what} did not happen within {within_s:.0f} s") from None


def _flag(port: str) -> str:
    return f"--{port.replace('_', '-')}-port"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
