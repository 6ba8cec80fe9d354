"""A worker that writes down each call before it does anything; a task's body says who it is and how long it takes.

python -m famulus.lab.chaos.worker BACKENDS LEDGER SLOTS

BACKENDS are separated by commas. A line is the task's name, the number of the attempt and the service. A task whose
duration is not a number fails.
"""

from __future__ import annotations

import os
import sys
import time

from famulus import Task, Worker
from famulus.cli.logs import set_up_logs


def main(backends: str, path: str, slots: str) -> None:
    # What was written survives the death of the process; only a crash of the machine would lose it.
    ledger = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    # Back soon: until its workers are, a family without a fallback has nobody for its clients.
    worker = Worker(brokers=backends.split(","), slots=int(slots), wait=True, return_after_s=(2.0, 5.0))

    def work(body: bytes, task: Task) -> bytes:
        name, _, duration_ms = body.partition(b" ")
        os.write(ledger, b"%b %d %b\n" % (name, task.attempt, task.service.encode()))
        time.sleep(int(duration_ms) / 1000)  # or fail, if that is not a number
        return body

    for service in ("chaos.once", "chaos.again"):
        worker.service(service)(work)
    worker.run()


if __name__ == "__main__":
    set_up_logs("info")
    main(*sys.argv[1:])
