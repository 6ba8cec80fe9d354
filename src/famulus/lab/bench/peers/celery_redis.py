"""Celery as a peer, with Redis as its broker and its result backend."""

from __future__ import annotations

import importlib
from collections import deque
from typing import Any

from famulus.lab.bench.fleet import Crew
from famulus.lab.bench.meter import Meter, Order
from famulus.lab.bench.peers.peer import TIMEOUT_S, Needs, Peer, ask_ahead, program
from famulus.lab.processes import free_port


def start(crew: Crew, window: int) -> str:
    port = str(free_port())
    # Nothing on disk, as with the others.
    command = [program("redis-server"), "--bind", "127.0.0.1", "--port", port, "--save", "", "--appendonly", "no"]
    crew.start("server", command).wait_until("Ready to accept connections")
    address = f"redis://127.0.0.1:{port}/0"
    crew.worker("celery", address)
    return address


def application(address: str) -> Any:
    app = importlib.import_module("celery").Celery("peers", broker=address, backend=address)
    # JSON only: its other serializers run what they read.
    app.conf.update(task_serializer="json", result_serializer="json", accept_content=["json"], result_expires=60)
    app.conf.update(worker_prefetch_multiplier=64, worker_redirect_stdouts=False)
    return app


def worker(address: str) -> None:
    app = application(address)

    @app.task(name="echo")  # type: ignore[untyped-decorator]
    def echo(body: str) -> str:
        return body

    def tell(**_: object) -> None:
        print("worker is ready", flush=True)

    importlib.import_module("celery.signals").worker_ready.connect(tell)
    # In one process, like the workers of the other peers.
    quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel", "ERROR"]
    app.worker_main(["worker", "--pool", "solo", *quiet])


def client(order: Order) -> Meter:
    app = application(order.address)
    opened: deque[Any] = deque()

    # JSON has no bytes; in Latin-1 each character is one of them.
    def ask(body: bytes) -> None:
        opened.append(app.send_task("echo", (body.decode("latin-1"),)))

    def take() -> bytes:
        answer: str = opened.popleft().get(timeout=TIMEOUT_S)
        return answer.encode("latin-1")

    return ask_ahead(order, ask, take)


NEEDS = Needs({"redis-server": "redis-server"}, {"celery": "celery", "redis": "redis"})
PEER = Peer("celery", start, client, {"worker": worker}, NEEDS)
