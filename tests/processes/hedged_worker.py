"""A worker that takes its time, and says when it begins and when it is stopped.

hedged_worker.py BACKEND SLOTS SECONDS
"""

from __future__ import annotations

import asyncio
import logging
import sys

from famulus import Task, Worker

worker = Worker(sys.argv[1], slots=int(sys.argv[2]))
SECONDS = float(sys.argv[3])


def say(what: str, body: bytes) -> None:
    sys.stdout.write(f"{what} {body.decode()}\n")
    sys.stdout.flush()


@worker.service("price")
async def price(body: bytes, task: Task) -> str:
    say("began", body)
    try:
        await asyncio.sleep(SECONDS)
    except asyncio.CancelledError:
        say("stopped", body)
        raise
    return f"{SECONDS} {task.message_id}"


if __name__ == "__main__":
    logging.basicConfig(level="INFO")
    worker.run()
