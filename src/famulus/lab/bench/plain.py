"""The other side of a measurement: echo through `zmq.proxy`, with a client and a worker in plain pyzmq.

python -m famulus.lab.bench.plain proxy
python -m famulus.lab.bench.plain worker ADDRESS
python -m famulus.lab.bench.plain client ADDRESS WINDOW SIZE SECONDS
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from time import monotonic_ns

import zmq

from famulus.core.clock import NS_PER_S
from famulus.lab.bench.load import WARM_UP_S, Tally, bodies

HEADER = b'{"request":"TASK","type":"REQUEST","service":"echo","timeout_ms":30000}'


def proxy() -> None:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    frontend, backend = context.socket(zmq.ROUTER), context.socket(zmq.DEALER)
    for socket in (frontend, backend):
        socket.set_hwm(0)  # else its ROUTER drops what does not fit, and the client waits for ever
    ports = [socket.bind_to_random_port("tcp://127.0.0.1") for socket in (frontend, backend)]
    print(f"proxy is ready: clients tcp://127.0.0.1:{ports[0]}, workers tcp://127.0.0.1:{ports[1]} ", flush=True)
    zmq.proxy(frontend, backend)


def worker(address: str) -> None:
    socket = zmq.Context().socket(zmq.DEALER)
    socket.set_hwm(0)
    socket.connect(address)
    print("worker is ready", flush=True)
    while True:
        socket.send_multipart(socket.recv_multipart())


def client(address: str, window: str, size: str, seconds: str) -> None:
    socket = zmq.Context().socket(zmq.DEALER)
    socket.set_hwm(0)
    socket.linger = 0
    socket.connect(address)
    start_ns = monotonic_ns()
    tally = Tally(start_ns + int(WARM_UP_S * NS_PER_S))
    stream = bodies(int(size), start_ns + int((WARM_UP_S + float(seconds)) * NS_PER_S))
    opened = 0
    for body in stream:
        socket.send_multipart([b"", HEADER, body])
        opened += 1
        if opened == int(window):
            tally.note(socket.recv_multipart()[2])
            opened -= 1
    for _ in range(opened):
        tally.note(socket.recv_multipart()[2])
    print(json.dumps(tally.report()))


ROLES: dict[str, Callable[..., None]] = {"proxy": proxy, "worker": worker, "client": client}

if __name__ == "__main__":
    ROLES[sys.argv[1]](*sys.argv[2:])
