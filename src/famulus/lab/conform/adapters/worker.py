"""Our worker as a command of the conformance kit: python -m famulus.lab.conform.adapters.worker."""

from __future__ import annotations

import itertools
import queue
import threading
from collections.abc import Iterator
from typing import Any

from famulus import Worker
from famulus.lab.conform.adapters.talk import tell, told

OFFERS = ["drain", "several", "streams", "token"]


class Calls:
    """The calls of our functions, which do what the kit tells them."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._wishes: dict[int, queue.SimpleQueue[dict[str, Any]]] = {}

    def begin(self, service: str, body: bytes) -> Iterator[dict[str, Any]]:
        """What is to be done, line by line."""
        number = next(self._numbers)
        wishes: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._wishes[number] = wishes
        tell(task=number, service=service, body=body.hex())
        return iter(wishes.get, None)

    def pass_on(self, line: dict[str, Any]) -> None:
        self._wishes[line["task"]].put(line)


def add_service(worker: Worker, calls: Calls, name: str) -> None:
    @worker.service(name)
    def answer(body: bytes) -> bytes:
        line = next(calls.begin(name, body))
        if line["do"] == "fail":
            raise ValueError(line["reason"])
        return bytes.fromhex(line["body"])


def add_stream(worker: Worker, calls: Calls, name: str) -> None:
    @worker.service(name)
    def give(body: bytes) -> Iterator[bytes]:
        for line in calls.begin(name, body):
            if line["do"] != "part":
                return
            yield bytes.fromhex(line["body"])


def main() -> None:
    tell(offers=OFFERS)
    lines = told()
    serve = next(lines)
    worker = Worker(serve["address"], identity=serve["identity"], slots=serve["slots"], wait=True)
    calls = Calls()
    for name in serve["services"]:
        add_service(worker, calls, name)
    for name in serve["streams"]:
        add_stream(worker, calls, name)
    threading.Thread(target=obey, args=(worker, calls, lines), daemon=True).start()
    worker.run()


def obey(worker: Worker, calls: Calls, lines: Iterator[dict[str, Any]]) -> None:
    for line in lines:
        if line["do"] == "stop":
            worker.stop()
        else:
            calls.pass_on(line)


if __name__ == "__main__":
    main()
