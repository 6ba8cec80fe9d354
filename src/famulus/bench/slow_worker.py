"""The worker process of the overload measurement: so many slots, so many milliseconds a task."""

from __future__ import annotations

import asyncio
import logging
import sys

from famulus import Worker


def main(address: str, slots: str, work_ms: str) -> None:
    logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(message)s")
    worker = Worker(address, slots=int(slots))
    seconds = float(work_ms) / 1000

    @worker.service("slow")
    async def slow(body: bytes) -> bytes:
        await asyncio.sleep(seconds)
        return body

    worker.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
