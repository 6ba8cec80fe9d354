"""A client that asks without pause until SIGTERM, and writes down what it sent and was told, one line each.

python -m famulus.lab.chaos.client FRONTENDS LEDGER CALLERS NAME

FRONTENDS are separated by commas. Each of CALLERS asyncio tasks has one task open at a time. The lines are those that
`famulus.lab.chaos.ledgers` reads; an answer that belongs to another task is the outcome `WRONG`.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from random import Random
from time import monotonic

from famulus import AsyncClient
from famulus.errors import OutcomeError

#: Between two tasks of a caller: this is about faults, and an overloaded machine would be one more.
PAUSE_S = 0.01
#: After a failure, so that a broker that is gone is not asked a thousand times a second.
PAUSE_AFTER_FAILURE_S = 0.1
TIMEOUTS_S = (0.5, 2.0, 5.0, 5.0)
#: Milliseconds that a task takes its worker; one that is meant to fail has no number.
DURATIONS_MS = (*[0] * 60, *[5] * 10, *[20] * 10, *[100] * 5, "fail")


class Caller:
    def __init__(self, client: AsyncClient, ledger: int, name: str) -> None:
        self._client = client
        self._ledger = ledger
        self._name = name
        self._random = Random(name)
        self._sent = 0

    async def ask_until(self, stopping: asyncio.Event) -> None:
        while not stopping.is_set():
            succeeded = await self._ask()
            await asyncio.sleep(PAUSE_S if succeeded else PAUSE_AFTER_FAILURE_S)

    async def _ask(self) -> bool:
        self._sent += 1
        choose = self._random
        task = f"{self._name}-{self._sent}"
        service = choose.choice(("chaos.once", "chaos.again"))
        # A task is at-least-once if its service or its client says so.
        insists = choose.random() < 0.1
        kind = "again" if insists or service == "chaos.again" else "once"
        body = f"{task} {choose.choice(DURATIONS_MS)}".encode()
        # Some have an id of their own: these may be asked for again.
        message_id = task if insists or choose.random() < 0.3 else None
        self._write("sent", task, kind, monotonic())
        try:
            answer = await self._client.request(
                service, body, timeout=choose.choice(TIMEOUTS_S), message_id=message_id, at_least_once=insists
            )
        except OutcomeError as error:
            self._write("ended", task, error.outcome, error.code or "-", monotonic())
            return False
        self._write("ended", task, "OK" if answer == body else "WRONG", "-", monotonic())
        return True

    def _write(self, *words: object) -> None:
        os.write(self._ledger, (" ".join(map(str, words)) + "\n").encode())


async def main(frontends: str, path: str, callers: str, name: str) -> None:
    ledger = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    async with AsyncClient(frontends.split(",")) as client:
        everybody = [Caller(client, ledger, f"{name}-{number}") for number in range(int(callers))]
        await asyncio.gather(*(caller.ask_until(stopping) for caller in everybody))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
