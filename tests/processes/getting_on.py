"""A worker with a function that says how far it has got, and then waits for a file: getting_on.py BACKEND FILE"""

from __future__ import annotations

import logging
import sys
import time
from pathlib import Path

from famulus import Task, Worker

worker = Worker(sys.argv[1])
go = Path(sys.argv[2])


@worker.service("get_on")
def get_on(body: bytes, task: Task) -> bytes:
    task.progress(0.4, "page 2")
    while not go.exists():
        time.sleep(0.02)
    return b"done"


logging.basicConfig(level="INFO")
worker.run()
