"""`zmq.proxy` as a peer, with plain pyzmq on both sides: a lower bound for brokers, since it reads nothing."""

from __future__ import annotations

import zmq

from famulus.lab.bench.fleet import Crew
from famulus.lab.bench.meter import Meter, Order
from famulus.lab.bench.peers.peer import Peer, ask_ahead

HEADER = b'{"request":"TASK","type":"REQUEST","service":"echo","timeout_ms":30000}'


def start(crew: Crew, window: int, name: str = "server") -> str:
    proxy = crew.part(name, "peers.process", "proxy", "server")
    ready = proxy.wait_until(r"clients (\S+), workers (\S+) ")
    crew.worker("proxy", ready[2])
    return ready[1]


def server() -> None:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    frontend, backend = context.socket(zmq.ROUTER), context.socket(zmq.DEALER)
    for socket in (frontend, backend):
        socket.set_hwm(0)  # otherwise its ROUTER drops what does not fit, and the client waits for ever
    ports = [socket.bind_to_random_port("tcp://127.0.0.1") for socket in (frontend, backend)]
    print(f"proxy is ready: clients tcp://127.0.0.1:{ports[0]}, workers tcp://127.0.0.1:{ports[1]} ", flush=True)
    zmq.proxy(frontend, backend)


def dealer(address: str) -> zmq.Socket[bytes]:
    socket = zmq.Context().socket(zmq.DEALER)
    socket.set_hwm(0)
    socket.linger = 0
    socket.connect(address)
    return socket


def worker(address: str) -> None:
    socket = dealer(address)
    print("worker is ready", flush=True)
    while True:
        socket.send_multipart(socket.recv_multipart())


def client(order: Order) -> Meter:
    socket = dealer(order.address)
    return ask_ahead(order, lambda body: socket.send_multipart([b"", HEADER, body]), lambda: socket.recv_multipart()[2])


PEER = Peer("proxy", start, client, {"server": server, "worker": worker})
