"""A worker whose functions yield, and say how far they got: in threads and coroutines, or in processes.

stream_worker.py BACKEND PROCESSES
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections.abc import AsyncIterator, Iterator

import msgspec

from famulus import Service, Task, Worker


class Upto(msgspec.Struct):
    last: int


squares = Service("squares", takes=Upto, gives=int)


def say(what: str) -> None:
    sys.stdout.write(f"{what}\n")
    sys.stdout.flush()


def serve(address: str, processes: int) -> None:
    worker = Worker(address, slots=4, processes=processes)

    @worker.service("count")
    def count(body: bytes) -> Iterator[bytes]:
        yield from (b"%d" % number for number in range(int(body)))

    @worker.service("endless")
    def endless(body: bytes) -> Iterator[bytes]:
        say("began")
        made = 0
        try:
            while True:
                made += 1
                yield b"%d" % made
                say(f"took {made}")
        finally:
            say(f"closed after {made}")

    if not processes:

        @worker.service("slow")
        async def slow(body: bytes) -> AsyncIterator[bytes]:
            say("began")
            try:
                while True:
                    yield b"part"
                    await asyncio.sleep(30)
            except asyncio.CancelledError:
                say("stopped")
                raise

    @worker.service("break")
    def broken(body: bytes) -> Iterator[bytes]:
        yield b"1"
        yield b"2"
        raise ValueError("no more of it")

    @worker.service("plain")
    def plain(body: bytes, task: Task) -> bytes:
        task.progress(0.5, "half of it")
        time.sleep(0.05)
        return body

    @worker.serves(squares)
    def squared(upto: Upto) -> Iterator[int]:
        yield from (number * number for number in range(upto.last))

    worker.run()


if __name__ == "__main__":
    logging.basicConfig(level="INFO")
    serve(sys.argv[1], int(sys.argv[2]))
