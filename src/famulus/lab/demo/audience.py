"""The clients of the demo: they ask at a steady rate, whatever happens, and keep an results of every task.

At the end they say which promises were broken. It should be none.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Final

from famulus import AsyncClient, OutcomeError
from famulus.lab.demo.cast import SERVICES, SLOTS, Service

TIMEOUT_S = 10.0
#: What "now" means on the screen.
RECENT_S = 3.0
#: For this long after a loss has been mended, a task may still end as UNKNOWN or REJECTED because of it.
AFTERMATH_S: Final = 4.0
#: A machine that has too much to do refuses tasks, or lets their time run out. That is not a broken promise, since they
#: did not run and whoever asked was told so; but more than this share would be no service either.
BUSY_SHARE_MAX: Final = 0.1
_BUSY: Final = frozenset({"expired", "overload"})


@dataclass(frozen=True, slots=True)
class Ended:
    at_s: float
    outcome: str
    code: str
    latency_ms: float


@dataclass
class Results:
    """What became of the tasks of one service."""

    service: Service
    sent: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    #: Those that did not end as the service promises.
    trouble: list[Ended] = field(default_factory=list)
    wrong_answers: int = 0
    recent: deque[Ended] = field(default_factory=deque)
    latencies_us: list[int] = field(default_factory=list)

    def note(self, ended: Ended, expected: str) -> None:
        self.outcomes[ended.outcome] += 1
        self.latencies_us.append(int(ended.latency_ms * 1000))
        self.recent.append(ended)
        if ended.outcome != expected:
            self.trouble.append(ended)

    def look(self, now_s: float) -> list[Ended]:
        """What ended recently."""
        while self.recent and self.recent[0].at_s < now_s - RECENT_S:
            self.recent.popleft()
        return list(self.recent)


class Audience:
    def __init__(self, frontends: Sequence[str]) -> None:
        """As many clients as frontends; each starts at its own, and learns of the others."""
        self._frontends = frontends
        self.by_service = {service.name: Results(service) for service in SERVICES}
        self._successes: list[asyncio.Future[float] | None] = [None] * len(frontends)
        self._leaving = asyncio.Event()

    async def ask(self) -> None:
        """Asks until `leave`; returns when everything asked has its outcome."""
        clients = [AsyncClient(frontend, timeout=TIMEOUT_S) for frontend in self._frontends]
        try:
            rates = [self._load(clients, results) for results in self.by_service.values()]
            await asyncio.gather(*rates)
        finally:
            for client in clients:
                await client.close()

    def leave(self) -> None:
        self._leaving.set()

    def next_success(self, client: int) -> asyncio.Future[float]:
        """The instant of the next OK among the tasks that this client asks from now on."""
        success: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        self._successes[client] = success
        return success

    async def _load(self, clients: list[AsyncClient], results: Results) -> None:
        opened: set[asyncio.Task[None]] = set()
        start_s = monotonic()
        number = 0
        while not self._leaving.is_set():
            due_s = start_s + number / results.service.per_second
            await asyncio.sleep(max(0.0, due_s - monotonic()))
            task = asyncio.create_task(self._one(clients, results, number))
            opened.add(task)
            task.add_done_callback(opened.discard)
            number += 1
        if opened:
            await asyncio.wait(opened)

    async def _one(self, clients: list[AsyncClient], results: Results, number: int) -> None:
        which = number % len(clients)
        service = results.service
        body = f"{number}".encode()
        results.sent += 1
        sent_s = monotonic()
        awaited = self._successes[which]
        code = ""
        try:
            answer = await clients[which].request(service.name, body, at_least_once=service.delivery == "at_least_once")
            outcome = "OK"
            results.wrong_answers += answer != _right_answer(service.name, body)
        except OutcomeError as error:
            outcome, code = error.outcome, error.code
        now_s = monotonic()
        if outcome == "OK" and awaited is not None and not awaited.done():
            awaited.set_result(now_s)
        expected = "ERROR" if service.fails_every and number % service.fails_every == 0 else "OK"
        results.note(Ended(now_s, outcome, code, (now_s - sent_s) * 1000), expected)


def _right_answer(service: str, body: bytes) -> bytes:
    if service == "shout":
        return body.upper()
    return hashlib.sha256(body).hexdigest().encode() if service == "digest" else body


# -- which promises were broken -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Recovery:
    """Something was lost, and came back: what, how long that took, and how long it may take."""

    what: str
    seconds: float
    allowed_s: float


@dataclass(slots=True)
class Loss:
    """When somebody was killed, and when all was well again as far as one could see."""

    killed_s: float = 0.0
    mended_s: float = 0.0

    @property
    def over_s(self) -> float:
        return self.mended_s + AFTERMATH_S

    def explains(self, ended: Ended) -> bool:
        return self.killed_s <= ended.at_s <= self.over_s


def broken(by_service: Mapping[str, Results], recoveries: Iterable[Recovery], worker: Loss, broker: Loss) -> list[str]:
    found = [f"{each.what} took {each.seconds:.1f} s" for each in recoveries if each.seconds > each.allowed_s]
    for name, results in by_service.items():
        found += [f"{name}: {fault}" for fault in _faults(results, worker, broker)]
    return found


def _faults(results: Results, worker: Loss, broker: Loss) -> list[str]:
    faults = []
    if missing := results.sent - results.outcomes.total():
        faults.append(f"{missing} tasks have no outcome")
    if results.wrong_answers:
        faults.append(f"{results.wrong_answers} answers were wrong")
    busy = [each for each in results.trouble if each.code in _BUSY]
    if len(busy) > BUSY_SHARE_MAX * results.sent:
        faults.append(f"{len(busy)} of {results.sent} tasks were refused ({_codes(busy)})")
    trouble = [each for each in results.trouble if each.code not in _BUSY]
    after_broker = [each for each in trouble if broker.explains(each)]
    # The broker is killed soon after the worker: what goes wrong from then on is not due to the worker.
    after_worker = [each for each in trouble if worker.explains(each) and each not in after_broker]
    elsewhere = [each for each in trouble if each not in after_worker and each not in after_broker]
    if elsewhere:
        faults.append(f"{len(elsewhere)} tasks failed while nothing was lost ({_codes(elsewhere)})")
    if len(after_worker) > SLOTS:
        faults.append(f"{len(after_worker)} tasks failed though the lost worker had {SLOTS} slots")
    if results.service.delivery == "at_least_once" and trouble:
        faults.append(f"{len(trouble)} at-least-once tasks were not given to somebody else")
    if wrong := [each for each in trouble if each.outcome in ("OK", "ERROR")]:
        faults.append(f"{len(wrong)} tasks ended with the other of OK and ERROR")
    return faults


def _codes(all_ended: Iterable[Ended]) -> str:
    return ", ".join(sorted({each.code or each.outcome for each in all_ended}))
