"""Famulus as a peer: its broker, a worker as a user would write it, its clients.

For `--network` it is one of three brokers of a network, whose stewards write to each other. For `--secure` it is the
only one of a network, and its worker and client have a pass: all that they say is sealed.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import tempfile
from collections.abc import Coroutine, Iterator
from dataclasses import replace
from itertools import tee
from pathlib import Path
from typing import Any

from famulus import AsyncClient, Client, Worker
from famulus.errors import BenchFailed
from famulus.lab.bench import secured
from famulus.lab.bench.fleet import Crew
from famulus.lab.bench.meter import Meter, Order, names
from famulus.lab.bench.peers.peer import Peer, ask_in_a_row
from famulus.lab.chaos.lan import Loopback
from famulus.lab.chaos.network import Broker
from famulus.lab.processes import found_network

#: Brokers of a network; the first one is measured.
BROKERS = ("measured", "other-1", "other-2")


def start(crew: Crew, window: int, *flags: str) -> str:
    return crew.echo_broker(window, *flags, name="server").frontend


def start_network(scratch: Path, crew: Crew, window: int) -> str:
    """With the folders of the brokers in `scratch`."""
    place, lan = Path(tempfile.mkdtemp(dir=scratch)), Loopback()
    measured, *others = (Broker(name, "main", place, lan.machine(name), lan.ports()) for name in BROKERS)
    if wrong := found_network(measured.home, "measured", *measured.place()):
        raise BenchFailed(f"no network could be made: {wrong}")
    address = start(crew, window, "--folder", str(measured.home))
    for broker in others:
        broker.join(measured)
        crew.broker("--folder", str(broker.home), *broker.joins, name="other brokers")
    return address


def start_with_keys(crew: Crew, window: int) -> str:
    broker = secured.broker(crew, name="server")
    crew.echo_worker(broker, window)
    return broker.frontend


def worker(address: str, slots: str, service: str = "echo", work_ms: str = "") -> None:
    """Echoes at once, or after `work_ms`, during which a slot is busy but no processor is."""
    logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(message)s")
    worker = Worker(address, slots=int(slots))

    def echo(body: bytes) -> bytes:
        return body

    async def echo_later(body: bytes) -> bytes:
        await asyncio.sleep(float(work_ms) / 1000)
        return body

    worker.service(service)(echo_later if work_ms else echo)
    worker.run()


def client(order: Order) -> Meter | Coroutine[Any, Any, Meter]:
    """`request` and `map` are compared with other brokers; `asyncio` and `threads` are what `bench echo` measures."""
    if order.style == "threads":
        return with_threads(order)
    # On the standard library's loop, as in most programs.
    return asyncio.run(with_asyncio(order)) if order.style == "asyncio" else with_asyncio(order)


def with_threads(order: Order) -> Meter:
    with Client(order.address) as client:
        meter, stream = order.begin()
        if order.window == 1:
            ids = names()
            for body in stream:
                meter.note(client.request("echo", body, message_id=next(ids) if order.ids else None))
        else:
            for answer in client.map("echo", **_named(order, stream), window=order.window, ordered=False):
                meter.note(answer)
    return meter


async def with_asyncio(order: Order) -> Meter:
    async with AsyncClient(order.address) as client:
        if order.style == "request" or order.window == 1:
            ids = names()
            return await ask_in_a_row(
                order, lambda body: client.request("echo", body, message_id=next(ids) if order.ids else None)
            )
        meter, stream = order.begin()
        async for answer in client.map("echo", **_named(order, stream), window=order.window, ordered=False):
            meter.note(answer)
        return meter


def _named(order: Order, stream: Iterator[bytes]) -> dict[str, Any]:
    """The bodies for a `map`, with ids or without."""
    if not order.ids:
        return {"bodies": stream}
    stream, also = tee(stream)
    return {"bodies": stream, "message_ids": names(also)}


PEER = Peer("famulus", start, client, {"worker": worker})
WITH_KEYS = replace(PEER, start=start_with_keys)
