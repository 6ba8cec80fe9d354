"""The worker process of the overload measurement: a service of so many slots and so many milliseconds a task.

python -m famulus.lab.bench.slow_worker ADDRESS SERVICE SLOTS WORK_MS
"""

from __future__ import annotations

import asyncio
import logging
import sys

from famulus import Worker


def main(address: str, service: str, slots: str, work_ms: str) -> None:
    logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(message)s")
    worker = Worker(address, slots=int(slots))
    seconds = float(work_ms) / 1000

    @worker.service(service)
    async def slow(body: bytes) -> bytes:
        await asyncio.sleep(seconds)
        return body

    worker.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
