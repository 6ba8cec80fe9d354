"""A worker whose functions take as long as they may, and says what becomes of them: in threads, or in processes.

cancelled_worker.py BACKEND SLOTS PROCESSES
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time

from famulus import Task, Worker

LONG_S = 120.0

processes = int(sys.argv[3])
worker = Worker(sys.argv[1], slots=int(sys.argv[2]), processes=processes)


def say(what: str, body: bytes) -> None:
    sys.stdout.write(f"{what} {body.decode()}\n")
    sys.stdout.flush()


@worker.service("work")
def work(body: bytes, task: Task) -> bytes:
    if body == b"now":
        return body
    say("began", body)
    until = time.monotonic() + LONG_S
    while time.monotonic() < until:
        if task.cancelled:
            say("saw", body)
            raise RuntimeError("nobody wants it")
        time.sleep(0.005)
    return body


@worker.service("quick")
def quick(body: bytes) -> bytes:
    return body


if not processes:

    @worker.service("wait")
    async def wait(body: bytes) -> bytes:
        say("began", body)
        try:
            await asyncio.sleep(LONG_S)
        except asyncio.CancelledError:
            say("stopped", body)
            raise
        return body


if __name__ == "__main__":
    logging.basicConfig(level="INFO")
    worker.run()
