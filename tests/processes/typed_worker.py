"""A worker of functions with types.

python typed_worker.py BACKEND PROCESSES
"""

from __future__ import annotations

import os
import sys

import msgspec

from famulus import Service, Task, Worker


class Size(msgspec.Struct):
    width: int
    height: int = 0


class Thumb(msgspec.Struct):
    name: str
    pid: int


make = Service("thumb.make", takes=Size, gives=Thumb)
packed = Service("thumb.packed", takes=Size, gives=Thumb, codec="msgpack")

if __name__ == "__main__":
    import logging

    logging.basicConfig(level=logging.INFO)
    processes = int(sys.argv[2])
    worker = Worker(sys.argv[1], slots=4, processes=processes)

    @worker.serves(make)
    @worker.serves(packed)
    def run(size: Size) -> Thumb:
        return Thumb(f"{size.width}x{size.height}", os.getpid())

    @worker.service("add")
    def add(a: int, b: int = 0) -> int:
        return a + b

    @worker.service("whose")
    def whose(task: Task) -> dict[str, str]:
        return dict(task.headers)

    if not processes:

        @worker.service("later")
        async def later(words: list[str]) -> str:
            return " ".join(words)

    worker.run()
