"""The worker process of the measurement of batches: it sleeps instead of working, for one task or for a batch.

python -m famulus.lab.bench batch_worker ADDRESS WORK

WORK is a `BatchWork` in JSON. It ends on SIGTERM.
"""

from __future__ import annotations

import logging
import time

import msgspec

from famulus import Worker
from famulus.core.batch_queue import slots_for

SERVICE = "work"


class BatchWork(msgspec.Struct, frozen=True):
    #: Tasks of a batch; 0 without batches.
    batch: int
    wait_ms: float
    #: Calls of the function at the same time.
    threads: int
    #: How long a call takes, and how much longer for each of its tasks.
    call_ms: float
    task_ms: float

    def lasts_s(self, tasks: int) -> float:
        return (self.call_ms + tasks * self.task_ms) / 1000


def main(address: str, text: str) -> None:
    logging.basicConfig(level="INFO")  # it says when it is ready
    work = msgspec.json.decode(text, type=BatchWork)
    worker = Worker(address, slots=slots_for(work.batch, work.threads) if work.batch else work.threads)

    def one(body: bytes) -> bytes:
        time.sleep(work.lasts_s(1))
        return body

    def many(bodies: list[bytes]) -> list[bytes]:
        time.sleep(work.lasts_s(len(bodies)))
        return bodies

    if work.batch:
        worker.service(SERVICE, batch=work.batch, wait_ms=work.wait_ms)(many)
    else:
        worker.service(SERVICE)(one)
    worker.run()
