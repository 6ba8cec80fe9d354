"""A worker whose functions get batches, or take too long: in threads, or in so many processes.

batch_worker.py BACKEND PROCESSES
"""

from __future__ import annotations

import logging
import os
import sys
import time

from famulus import Worker

worker = Worker(sys.argv[1], processes=int(sys.argv[2]))


@worker.service("sizes", batch=16, wait_ms=5)
def sizes(bodies: list[bytes]) -> list[str | Exception]:
    time.sleep(0.005)
    return [ValueError("no") if body == b"bad" else f"{len(bodies)} {os.getpid()}" for body in bodies]


@worker.service("hang", time_limit_s=0.3)
def hang(body: bytes) -> bytes:
    time.sleep(1000 if body else 0)
    return body


if __name__ == "__main__":
    logging.basicConfig(level="INFO")
    worker.run()
