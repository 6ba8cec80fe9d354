"""The processes of the demo, and the network between them: brokers with their folders, workers, an admin's commands."""

from __future__ import annotations

import asyncio
import json
import os
import re
import secrets
import signal
from asyncio.subprocess import DEVNULL, PIPE, STDOUT, Process
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import TypeVar

from famulus.admin.administration import Administration, Shown
from famulus.admin.connection import AdminConnection
from famulus.admin.secret import Secret
from famulus.errors import DemoFailed
from famulus.lab.demo.cast import ADMIN, ANN, BROKERS, SERVICES, WORKERS, Broker, Worker
from famulus.lab.processes import free_ports, python
from famulus.lab.relay import Relay

START_S, STOP_S = 30.0, 10.0
#: What a process said last, for whoever asks why it failed.
LINES_KEPT = 50
PORTS = ("frontend", "backend", "config_pub", "peer")
#: What brokers tell each other goes over these.
BETWEEN_BROKERS = ("config_pub", "peer")

Who = TypeVar("Who", Broker, Worker)


async def run(*arguments: str, env: Mapping[str, str] | None = None, within_s: float = 60.0) -> None:
    """A command to its end; DemoFailed with its words if it failed."""
    environment = {**os.environ, **(env or {})}
    process = await asyncio.create_subprocess_exec(
        *python("famulus", *arguments), stdin=DEVNULL, stdout=PIPE, stderr=PIPE, env=environment
    )
    command = f"famulus {' '.join(arguments[:2])}"
    try:
        out, err = await asyncio.wait_for(process.communicate(), within_s)
    except TimeoutError:
        raise DemoFailed(f"{command} did not end within {within_s:.0f} s") from None
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
    if process.returncode:
        words = (err or out).decode(errors="replace").strip().splitlines()
        raise DemoFailed(f"{command} failed: {words[-1] if words else process.returncode}")


class Actor:
    """One process with its children: listened to, stopped or killed."""

    def __init__(self, name: str, process: Process) -> None:
        self.name = name
        self._process = process
        self._said: deque[str] = deque(maxlen=LINES_KEPT)
        self._waiting: list[tuple[re.Pattern[str], asyncio.Future[float]]] = []
        self._listening = asyncio.create_task(self._listen())

    @property
    def alive(self) -> bool:
        return self._process.returncode is None

    def line(self, pattern: str) -> asyncio.Future[float]:
        """When it says so, from now on: that instant, on the monotonic clock."""
        said: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        self._waiting.append((re.compile(pattern), said))
        return said

    async def ready(self, pattern: str) -> None:
        said = self.line(pattern)
        if any(re.search(pattern, line) for line in self._said):
            return
        try:
            await asyncio.wait_for(said, START_S)
        except (TimeoutError, EOFError):
            last = self._said[-1] if self._said else "it said nothing"
            raise DemoFailed(f"{self.name} did not start: {last}") from None

    def kill(self) -> None:
        """All of it at once, as if its machine were gone."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    async def stop(self) -> None:
        if self.alive:
            with suppress(ProcessLookupError):
                self._process.terminate()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._process.wait(), STOP_S)
        self.kill()  # whoever is left of it
        await self._process.wait()
        await self._listening

    async def _listen(self) -> None:
        assert self._process.stdout is not None
        while raw := await self._process.stdout.readline():
            line = raw.decode(errors="replace").rstrip()
            self._said.append(line)
            for pattern, said in self._waiting:
                if not said.done() and pattern.search(line):
                    said.set_result(monotonic())
            self._waiting = [each for each in self._waiting if not each[1].done()]
        for _, said in self._waiting:
            if not said.done():
                said.set_exception(EOFError(f"{self.name} has ended"))
                said.exception()  # nobody may be waiting any more


class Stage:
    def __init__(self, folder: Path, journal: Path) -> None:
        """`folder` is for what brokers keep. The journal is one for all: the names of its files say whose they are."""
        self._folder = folder
        self._journal = journal
        self._http_port, *ports = free_ports(1 + len(PORTS))
        self._ports = dict(zip(PORTS, ports, strict=True))
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
        place = (str(self._folder / ANN.name), "--admin", ADMIN, "--host", ANN.known_host)
        await run("init", *place, *self._identity(ANN), env=self._environment)
        await self.start(ANN)
        # One after the other: each is to know those before it when it says that it is ready.
        for broker in BROKERS:
            if broker is not ANN:
                await self._join(broker)
        await self.admin(ANN, "config", "set", "family/main", json.dumps({"fallback_families": ["reserve"]}))
        for service in SERVICES:
            await self.admin(ANN, "config", "set", f"service/{service.name}", f"delivery={service.delivery}")
        await asyncio.gather(*(self.hire(worker) for worker in WORKERS))

    async def tear_down(self) -> None:
        """Workers first, so that brokers have nothing left to wait for."""
        for group in (self.workers, self.brokers):
            await asyncio.gather(*(actor.stop() for actor in group.values()), return_exceptions=True)
        await asyncio.gather(*(relay.close() for relay in self._relays.values()), return_exceptions=True)

    def _identity(self, broker: Broker) -> list[str]:
        ports = [word for name, port in self._ports.items() for word in (f"--{name.replace('_', '-')}-port", str(port))]
        return ["--identity", broker.name, "--family", broker.family, *ports]

    async def _enter(self, group: dict[Who, Actor], who: Who, ready: str, *command: str) -> None:
        """In the place of the one before it, if there was one."""
        # A group of its own: Ctrl-C reaches only us, and a kill reaches all of it at once.
        process = await asyncio.create_subprocess_exec(
            *python("famulus", *command), stdin=DEVNULL, stdout=PIPE, stderr=STDOUT, start_new_session=True
        )
        actor = Actor(who.name, process)
        former, group[who] = group.get(who), actor
        if former is not None:
            await former.stop()
        await actor.ready(ready)

    async def start(self, broker: Broker, *more: str) -> None:
        """A broker that is a member, or becomes one with `more`."""
        folder = ("--folder", str(self._folder / broker.name), "--host", broker.own_host)
        http = ("--http-host", broker.own_host, "--http-port", str(self._http_port))
        journal = ("--journal-folder", str(self._journal), "--routers", "1", "--drain-ms", "2000")
        await self._enter(self.brokers, broker, r"broker \S+ is ready", "broker", *folder, *http, *journal, *more)

    async def _join(self, broker: Broker) -> None:
        config = self._folder / f"{broker.name}.toml"
        config.write_text(f'advertised_host = "{broker.known_host}"\n')
        where = f"{ANN.known_host}:{self._ports['peer']}"
        joining = ("--join", where, "--secret-file", str(self._folder / ANN.name / "join.secret"))
        await self.start(broker, *joining, "--config", str(config), *self._identity(broker))

    async def hire(self, worker: Worker) -> None:
        backend = f"tcp://{worker.home.known_host}:{self._ports['backend']}"
        command = ("worker", f"famulus.lab.demo.cast:{worker.service}", "--broker", backend, "--identity", worker.name)
        await self._enter(self.workers, worker, "is ready", *command)

    # -- what happens to it -------------------------------------------------------------------------------------

    def _between_brokers(self) -> list[Relay]:
        return [self._relays[broker, name] for broker in BROKERS for name in BETWEEN_BROKERS]

    async def part(self) -> None:
        """No broker hears of another one any more. Clients and workers get through."""
        await asyncio.gather(*(relay.cut() for relay in self._between_brokers()))

    def heal(self) -> None:
        for relay in self._between_brokers():
            relay.heal()

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
