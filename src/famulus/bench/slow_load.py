"""The client process of the overload measurement: a closed loop of so many tasks, or an open one of so many a second.

python -m famulus.bench.slow_load closed|open ADDRESS AMOUNT SECONDS
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from collections.abc import Callable
from time import monotonic, monotonic_ns

from famulus import AsyncClient, OutcomeError
from famulus.bench.figures import percentile

BODY = bytes(100)
WARM_UP_S = 1.0
#: An open loop sends what is due this often.
TICK_S = 0.002


class Tally:
    def __init__(self, seconds: float) -> None:
        self.from_s = monotonic() + WARM_UP_S
        self.until_s = self.from_s + seconds
        self.outcomes: Counter[str] = Counter()
        self.latencies: dict[str, list[int]] = {"OK": [], "overload": []}
        self.sent = 0

    def note(self, future: asyncio.Future[bytes], sent_ns: int) -> None:
        error = future.exception()
        outcome = error.code if isinstance(error, OutcomeError) else "OK"
        if self.from_s <= monotonic() < self.until_s:
            self.outcomes[outcome] += 1
            if outcome in self.latencies:
                self.latencies[outcome].append(monotonic_ns() - sent_ns)

    def report(self) -> dict[str, float]:
        seconds = self.until_s - self.from_s
        ok, rejected = (sorted(self.latencies[outcome]) for outcome in ("OK", "overload"))
        return {
            "offered": self.sent / seconds,
            "goodput": self.outcomes["OK"] / seconds,
            "rejected": self.outcomes["overload"] / seconds,
            "others": sum(self.outcomes.values()) - self.outcomes["OK"] - self.outcomes["overload"],
            "ok_p99_ms": percentile(ok, 0.99) / 1e6,
            "rejected_p50_ms": percentile(rejected, 0.5) / 1e6,
            "rejected_p99_ms": percentile(rejected, 0.99) / 1e6,
        }


async def main(kind: str, address: str, amount: float, seconds: float) -> None:
    async with AsyncClient(address, timeout=5.0) as client:
        tally = Tally(seconds)
        opened: set[asyncio.Future[bytes]] = set()

        def send() -> None:
            sent_ns = monotonic_ns()
            future = client.submit("slow", BODY)
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


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], float(sys.argv[3]), float(sys.argv[4])))
