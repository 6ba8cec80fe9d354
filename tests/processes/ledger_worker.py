"""A worker that writes every call to the disk before it does anything; the body of a task says what it is to do.

python ledger_worker.py BACKEND LEDGER SLOTS SERVICE...

`sleep 0.5 ...` takes that long, `until FILE` until that is there, `fail` raises, `die` kills the whole process. The
answer is the body; `attempt` is answered with the number of the attempt.
"""

from __future__ import annotations

import os
import signal
import sys
import time

from famulus import Task, Worker
from famulus.cli.logs import set_up_logs


def main(backend: str, ledger: str, slots: str, *services: str) -> None:
    descriptor = os.open(ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    worker = Worker(backend, slots=int(slots), wait=True)

    def work(body: bytes, task: Task) -> bytes:
        os.write(descriptor, f"{task.message_id} {task.attempt} {task.service}\n".encode())
        os.fsync(descriptor)
        word, _, rest = body.partition(b" ")
        if word == b"sleep":
            time.sleep(float(rest.split()[0]))
        elif word == b"until":
            while not os.path.exists(rest):
                time.sleep(0.005)
        elif word == b"fail":
            raise ValueError("as you wish")
        elif word == b"die":
            os.kill(os.getpid(), signal.SIGKILL)
        elif word == b"attempt":
            return str(task.attempt).encode()
        return body

    for service in services:
        worker.service(service)(work)
    worker.run()


if __name__ == "__main__":
    set_up_logs("info")
    main(*sys.argv[1:])
