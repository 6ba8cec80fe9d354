"""A worker that echoes as fast as it can.

python echo_worker.py BACKEND SLOTS SERVICE...
"""

from __future__ import annotations

import sys

from famulus import Worker
from famulus.cli.logs import set_up_logs


def echo(body: bytes) -> bytes:
    return body


def main(backend: str, slots: str, *services: str) -> None:
    worker = Worker(backend, slots=int(slots), wait=True)
    for service in services:
        worker.service(service)(echo)
    worker.run()


if __name__ == "__main__":
    set_up_logs("info")
    main(*sys.argv[1:])
