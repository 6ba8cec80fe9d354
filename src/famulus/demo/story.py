"""The demo's story: what is started, what is asked, who is killed, and whether every promise was kept."""

from __future__ import annotations

import asyncio
import signal
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

from famulus import AsyncClient, OutcomeError
from famulus.bench import fleet
from famulus.bench.figures import percentile

SETTINGS = """\
heartbeat_ms = 500

[services.shout]
delivery = "at_most_once"
timeout_ms = 10000

[services.digest]
delivery = "at_least_once"
timeout_ms = 10000
"""

WORKERS_PER_SERVICE = 3
SLOTS = 4
#: Of each service: tasks a second, for so long, and when one of its workers is killed.
RATES = {"shout": 400, "digest": 100}
SECONDS = 10.0
KILL_AFTER_S = 4.0


@dataclass
class Account:
    """What became of the tasks of one service."""

    sent: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    milliseconds: list[float] = field(default_factory=list)
    #: How long after the kill the last task ended that was not OK.
    last_trouble_s: float = 0.0

    def latency(self, share: float) -> float:
        ordered = sorted(int(value * 1000) for value in self.milliseconds)
        return percentile(ordered, share) / 1000


class Story:
    def __init__(self, tell: Callable[[str], None], advance: Callable[[int], None]) -> None:
        self._tell = tell
        self._advance = advance
        self.accounts = {service: Account() for service in RATES}
        self._killed_at_s = 0.0

    @property
    def tasks(self) -> int:
        return int(sum(RATES.values()) * SECONDS)

    def run(self) -> list[str]:
        """Play it; the promises that were broken, which should be none."""
        with tempfile.TemporaryDirectory() as folder, fleet.crew() as members:
            config = Path(folder, "broker.toml")
            config.write_text(SETTINGS)
            frontend, backend = fleet.broker(members, "--config", str(config))
            self._tell(f"a broker is up: clients at {frontend}, workers at {backend}")
            victims = {service: self._start_workers(members, service, backend) for service in RATES}
            asyncio.run(self._ask(frontend, victims))
        return self._broken_promises()

    def _start_workers(self, members: list[fleet.Member], service: str, backend: str) -> fleet.Member:
        workers = []
        for number in range(1, WORKERS_PER_SERVICE + 1):
            name = f"{service}-{number}"
            command = fleet.python(
                "famulus", "worker", f"famulus.demo.workers:{service}", "--broker", backend, "--identity", name
            )
            workers.append(fleet.Member(name, command, "is ready", stderr=True))
        members.extend(workers)
        self._tell(f"{len(workers)} workers offer {service!r}, with {SLOTS} slots each")
        return workers[0]

    async def _ask(self, frontend: str, victims: dict[str, fleet.Member]) -> None:
        async with AsyncClient(frontend, timeout=8.0) as client:
            await asyncio.gather(*(self._load(client, service) for service in RATES), self._kill(victims))

    async def _load(self, client: AsyncClient, service: str) -> None:
        """A steady rate, whatever happens."""
        opened: set[asyncio.Task[None]] = set()
        start_s = monotonic()
        for number in range(int(RATES[service] * SECONDS)):
            await asyncio.sleep(max(0.0, start_s + number / RATES[service] - monotonic()))
            task = asyncio.create_task(self._one(client, service, number))
            opened.add(task)
            task.add_done_callback(opened.discard)
        if opened:
            await asyncio.wait(opened)

    async def _one(self, client: AsyncClient, service: str, number: int) -> None:
        account = self.accounts[service]
        account.sent += 1
        sent_s = monotonic()
        try:
            await client.request(service, f"task {number}")
            outcome = "OK"
        except OutcomeError as error:
            outcome = error.outcome
            account.reasons[error.code] += 1
            account.last_trouble_s = monotonic() - self._killed_at_s
        account.outcomes[outcome] += 1
        account.milliseconds.append((monotonic() - sent_s) * 1000)
        self._advance(1)

    async def _kill(self, victims: dict[str, fleet.Member]) -> None:
        await asyncio.sleep(KILL_AFTER_S)
        self._killed_at_s = monotonic()
        for member in victims.values():
            member.signal(signal.SIGKILL)
        names = " and ".join(member.name for member in victims.values())
        self._tell(f"killed {names} (kill -9) in the middle of their work")

    def _broken_promises(self) -> list[str]:
        broken = []
        for service, account in self.accounts.items():
            if sum(account.outcomes.values()) != account.sent:
                broken.append(f"{service}: a task has no outcome")
            if failed := account.outcomes["ERROR"] + account.outcomes["REJECTED"]:
                broken.append(f"{service}: {failed} tasks failed: {dict(account.reasons)}")
            if account.outcomes["UNKNOWN"] > SLOTS:
                broken.append(f"{service}: more tasks are UNKNOWN than the killed worker could have had")
        if self.accounts["digest"].outcomes["UNKNOWN"]:
            broken.append("digest: an at-least-once task was not given to another worker")
        if self.accounts["shout"].last_trouble_s > 2.0:
            broken.append("shout: a task of the killed worker waited more than 2 s for its outcome")
        return broken
