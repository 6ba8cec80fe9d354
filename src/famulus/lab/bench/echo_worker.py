"""The worker process of a measurement: `echo`, as a user would write it."""

from __future__ import annotations

import logging
import sys

from famulus import Worker


def main(address: str, slots: str) -> None:
    logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(message)s")
    worker = Worker(address, slots=int(slots))

    @worker.service("echo")
    def echo(body: bytes) -> bytes:
        return body

    worker.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
