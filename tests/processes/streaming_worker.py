"""A worker whose functions yield, and say what becomes of them: in threads and on the loop, or in processes.

streaming_worker.py BACKEND PROCESSES
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import AsyncIterator, Iterator

import msgspec

from famulus import Service, Task, Worker

processes = int(sys.argv[2])
worker = Worker(sys.argv[1], slots=max(4, processes), processes=processes)


class Word(msgspec.Struct):
    text: str
    length: int


words = Service("words", takes=str, gives=Word)


def say(what: str) -> None:
    sys.stdout.write(f"{what}\n")
    sys.stdout.flush()


@worker.service("count")
def count(body: bytes, task: Task) -> Iterator[bytes]:
    say(f"began {task.message_id}")
    made = 0
    try:
        for made in range(1, int(body) + 1):
            yield b"%d" % made
        say(f"counted {task.message_id}")
    finally:
        say(f"closed {task.message_id} at {made}")


@worker.service("fail")
def fail(body: bytes) -> Iterator[bytes]:
    yield b"1"
    yield b"2"
    raise ValueError("no third one")


@worker.serves(words)
def split(text: str) -> Iterator[Word]:
    for word in text.split():
        yield Word(word, len(word))


@worker.service("work")
def work(body: bytes, task: Task) -> bytes:
    for step in range(int(body) + 1):
        task.progress(step / int(body), f"step {step}")
        time.sleep(0.02)
    return b"done"


@worker.service("steps")
def steps(body: bytes, task: Task) -> Iterator[bytes]:
    task.progress(0.5, "half")
    yield b"1"
    time.sleep(0.3)
    task.progress(1)
    yield b"2"
    time.sleep(0.3)


if not processes:

    @worker.service("count-async")
    async def count_async(body: bytes, task: Task) -> AsyncIterator[bytes]:
        say(f"began {task.message_id}")
        made = 0
        try:
            for made in range(1, int(body) + 1):
                yield b"%d" % made
        finally:
            say(f"closed {task.message_id} at {made}")


if __name__ == "__main__":
    logging.basicConfig(level="INFO")
    worker.run()
