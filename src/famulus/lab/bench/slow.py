"""The processes of the overload measurement.

python -m famulus.lab.bench.slow worker ADDRESS SERVICE SLOTS WORK_MS
python -m famulus.lab.bench.slow closed|open ADDRESS SERVICE AMOUNT TIMEOUT_S WARM_UP_S SECONDS

The worker has a service of so many slots and so many milliseconds a task. A client is a closed loop of so many tasks,
or an open one of so many a second.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections import Counter
from collections.abc import Callable
from time import monotonic, monotonic_ns

from famulus import AsyncClient, OutcomeError, Worker
from famulus.lab.bench.figures import percentile

BODY = bytes(100)
#: An open loop sends what is due this often.
TICK_S = 0.002


class Tally:
    """How tasks ended between the warm-up and the end."""

    def __init__(self, warm_up_s: float, seconds: float) -> None:
        self.from_s = monotonic() + warm_up_s
        self.until_s = self.from_s + seconds
        self.outcomes: Counter[str] = Counter()
        self.latencies: dict[str, list[int]] = {"OK": [], "overload": []}
        self.sent = 0

    def note(self, future: asyncio.Future[bytes], sent_ns: int) -> None:
        error = future.exception()
        if not self.from_s <= monotonic() < self.until_s:
            return
        outcome = "OK"
        if isinstance(error, OutcomeError):
            outcome = error.code if error.outcome == "REJECTED" else error.outcome
        self.outcomes[outcome] += 1
        if outcome in self.latencies:
            self.latencies[outcome].append(monotonic_ns() - sent_ns)

    def report(self) -> dict[str, float]:
        seconds = self.until_s - self.from_s
        ok, rejected = (sorted(self.latencies[outcome]) for outcome in ("OK", "overload"))
        told = ("OK", "overload", "expired", "UNKNOWN")
        return {
            "offered": self.sent / seconds,
            "goodput": self.outcomes["OK"] / seconds,
            "overload": self.outcomes["overload"] / seconds,
            "expired": self.outcomes["expired"] / seconds,
            "unknown": self.outcomes["UNKNOWN"] / seconds,
            "others": sum(count for outcome, count in self.outcomes.items() if outcome not in told),
            "ok_p99_ms": percentile(ok, 0.99) / 1e6,
            "rejected_p50_ms": percentile(rejected, 0.5) / 1e6,
            "rejected_p99_ms": percentile(rejected, 0.99) / 1e6,
        }


async def ask(kind: str, address: str, service: str, amount: float, timeout_s: float, tally: Tally) -> None:
    async with AsyncClient(address, timeout=timeout_s) as client:
        opened: set[asyncio.Future[bytes]] = set()

        def send() -> None:
            sent_ns = monotonic_ns()
            future = client.submit(service, BODY)
            opened.add(future)
            if monotonic() >= tally.from_s:
                tally.sent += 1
            future.add_done_callback(lambda done: ended(done, sent_ns))

        def ended(future: asyncio.Future[bytes], sent_ns: int) -> None:
            opened.discard(future)
            tally.note(future, sent_ns)
            if kind == "closed" and monotonic() < tally.until_s:
                send()

        if kind == "closed":
            for _ in range(int(amount)):
                send()
            await asyncio.sleep(tally.until_s - monotonic())
        else:
            await _offer(send, amount, tally.until_s)
        while opened:
            await asyncio.wait(opened)
    print(json.dumps(tally.report()))


async def _offer(send: Callable[[], None], per_s: float, until_s: float) -> None:
    """Send on schedule, whatever comes back: who falls behind catches up, so the offered load is what it says."""
    start_s = monotonic()
    sent = 0
    while (now_s := monotonic()) < until_s:
        due = int((now_s - start_s) * per_s)
        for _ in range(due - sent):
            send()
        sent = due
        await asyncio.sleep(TICK_S)


def work(address: str, service: str, slots: int, seconds: float) -> None:
    logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(message)s")
    worker = Worker(address, slots=slots)

    @worker.service(service)
    async def slow(body: bytes) -> bytes:
        await asyncio.sleep(seconds)
        return body

    worker.run()


def main(role: str, address: str, service: str, *words: str) -> None:
    numbers = [float(word) for word in words]
    if role == "worker":
        slots, work_ms = numbers
        work(address, service, int(slots), work_ms / 1000)
    else:
        amount, timeout_s, warm_up_s, seconds = numbers
        asyncio.run(ask(role, address, service, amount, timeout_s, Tally(warm_up_s, seconds)))


if __name__ == "__main__":
    main(*sys.argv[1:])
