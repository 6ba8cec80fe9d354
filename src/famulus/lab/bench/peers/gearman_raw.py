"""gearmand by hand, for speed: bare sockets, no table of jobs; many packets in one write, and the worker asks ahead.

With the libraries for Python one measures the library and not the server.

python -m famulus.lab.bench.peers.gearman_raw worker PORT
python -m famulus.lab.bench.peers.gearman_raw client ORDER
"""

from __future__ import annotations

import json
import sys

from famulus.errors import BenchFailed
from famulus.lab.bench.peers import gearman, recruit
from famulus.lab.bench.peers.gearman_packets import (
    CAN_DO,
    GRAB_JOB,
    JOB_ASSIGN,
    JOB_CREATED,
    NO_JOB,
    NOOP,
    PRE_SLEEP,
    SUBMIT_JOB,
    WORK_COMPLETE,
    Packet,
    Wire,
    packet,
)
from famulus.lab.bench.peers.meter import Meter
from famulus.lab.bench.peers.order import Order, read
from famulus.lab.bench.peers.peer import Needs, Peer

#: Jobs that the worker asks for at once. With one at a time each costs a round trip; with many more than there are, the
#: server is busy saying that there is none.
AHEAD = 16
GRAB, SLEEP = packet(GRAB_JOB), packet(PRE_SLEEP)


def start(crew: recruit.Crew, window: int) -> str:
    return gearman.start_with(crew, "famulus.lab.bench.peers.gearman_raw")


class Echo:
    """What a worker says to what it hears."""

    def __init__(self) -> None:
        self._asked = 0

    def greeting(self) -> list[bytes]:
        return [packet(CAN_DO, gearman.SERVICE), SLEEP]

    def answers(self, heard: list[Packet]) -> list[bytes]:
        said: list[bytes] = []
        for kind, body in heard:
            if kind == JOB_ASSIGN:
                handle, _, data = body.split(b"\0", 2)
                said += [packet(WORK_COMPLETE, handle, data), GRAB]
            elif kind == NOOP:
                said += [GRAB] * (AHEAD - self._asked)
                self._asked = AHEAD
            elif kind == NO_JOB:
                self._asked -= 1
                # Asleep only when nothing is asked any more: the server wakes nobody who still asks.
                said += [] if self._asked else [SLEEP]
            else:
                raise BenchFailed(f"gearmand said {kind} to a worker: {body!r}")
        return said


def worker(port: str) -> None:
    wire, echo = Wire(port, timeout_s=None), Echo()
    wire.send(echo.greeting())
    print("worker is ready", flush=True)
    while True:
        wire.send(echo.answers(wire.receive()))


def client(order: Order) -> Meter:
    wire = Wire(order.address)
    meter, stream = order.begin()
    opened, free = 0, order.window
    while True:
        # No key of their own: the server would make one job of those with the same.
        asked = [packet(SUBMIT_JOB, gearman.SERVICE, b"", body) for _, body in zip(range(free), stream, strict=False)]
        opened += len(asked)
        if not opened:
            return meter
        wire.send(asked)
        free = 0
        for kind, body in wire.receive():
            if kind == WORK_COMPLETE:
                meter.note(body.partition(b"\0")[2])
                free += 1
            elif kind != JOB_CREATED:
                raise BenchFailed(f"gearmand said {kind} to a client: {body!r}")
        opened -= free


PEER = Peer("gearman_raw", start, "famulus.lab.bench.peers.gearman_raw", Needs(gearman.PROGRAMS))

if __name__ == "__main__":
    if sys.argv[1] == "worker":
        worker(sys.argv[2])
    else:
        print(json.dumps(client(read(sys.argv[2])).report()))
