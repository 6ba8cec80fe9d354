"""A worker for pictures of the dashboard: `python shop_worker.py BACKEND IDENTITY SLOTS SERVICE...`"""

from __future__ import annotations

import sys
import time

from famulus import Task, Worker
from famulus.cli.logs import set_up_logs


class CardDeclined(Exception):
    """What a customer hears."""


def work(body: bytes) -> bytes:
    """The body says how many milliseconds it takes; one that begins with `no` fails."""
    words = body.split()
    time.sleep(int(words[-1]) / 1000)
    if words[0] == b"no":
        raise CardDeclined("the bank said no")
    return b"%08d" % len(body)


def export(body: bytes, task: Task) -> bytes:
    """The body says how many seconds it takes, a page each."""
    pages = int(body)
    for page in range(pages):
        task.progress(page / pages, f"page {page + 1} of {pages}")
        time.sleep(1)
    return b"done"


if __name__ == "__main__":
    backend, identity, slots, *services = sys.argv[1:]
    set_up_logs("info")
    worker = Worker(backend, identity=identity, slots=int(slots), wait=True)
    for service in services:
        worker.service(service)(export if service == "export" else work)
    worker.run()
