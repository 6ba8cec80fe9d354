"""`zmq.proxy` as a peer, with plain pyzmq on both sides: a lower bound for brokers, since it reads nothing."""

from __future__ import annotations

import json
import sys

import zmq

from famulus.lab.bench import fleet
from famulus.lab.bench.peers import recruit
from famulus.lab.bench.peers.meter import Meter
from famulus.lab.bench.peers.order import Order, read
from famulus.lab.bench.peers.peer import Peer
from famulus.lab.bench.plain import HEADER


def start(crew: recruit.Crew, window: int) -> str:
    ready = recruit.server(crew, fleet.python("famulus.lab.bench.plain", "proxy"), r"clients (\S+), workers (\S+) ")
    recruit.worker(crew, fleet.python("famulus.lab.bench.plain", "worker", ready[2]))
    return ready[1]


def client(order: Order) -> Meter:
    socket = zmq.Context().socket(zmq.DEALER)
    socket.set_hwm(0)
    socket.linger = 0
    socket.connect(order.address)
    meter, stream = order.begin()
    opened = 0
    for body in stream:
        socket.send_multipart([b"", HEADER, body])
        opened += 1
        if opened == order.window:
            meter.note(socket.recv_multipart()[2])
            opened -= 1
    for _ in range(opened):
        meter.note(socket.recv_multipart()[2])
    return meter


PEER = Peer("proxy", start, "famulus.lab.bench.peers.proxy")

if __name__ == "__main__":
    print(json.dumps(client(read(sys.argv[2])).report()))
