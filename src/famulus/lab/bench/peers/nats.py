"""NATS as a peer: nats-server, with nats-py in the worker and the client."""

from __future__ import annotations

import asyncio
import importlib
import inspect
from dataclasses import replace
from typing import Any

from famulus.lab.bench import secured
from famulus.lab.bench.fleet import Broker, Crew
from famulus.lab.bench.meter import Meter, Order
from famulus.lab.bench.peers.peer import TIMEOUT_S, Needs, Peer, ask_in_a_row, program

PROGRAMS = {"nats-server": "nats-server"}


def start_server(crew: Crew, *flags: str, scheme: str = "nats") -> Broker:
    command = [program("nats-server"), "--addr", "127.0.0.1", "--port", "-1", *flags]  # -1: a free one
    server = crew.start("server", command, stderr=True)
    address = f"{scheme}://" + server.wait_until(r"Listening for client connections on (\S+)")[1]
    return Broker(server, address, address)


def start(crew: Crew, window: int) -> str:
    address = start_server(crew).frontend
    crew.worker("nats", address)
    return address


def start_with_tls(crew: Crew, window: int) -> str:
    made, key = secured.certificate(crew)
    address = start_server(crew, "--tls", "--tlscert", str(made), "--tlskey", str(key), scheme="tls").frontend
    crew.worker("nats", address)
    return address


async def connect(address: str, **options: bool) -> Any:
    return await importlib.import_module("nats").connect(address, **options)


async def worker(address: str) -> None:
    connection = await connect(address, **_quick_options())

    async def echo(message: Any) -> None:
        await message.respond(message.data)

    # A queue group, as a service with several workers would need.
    await connection.subscribe("echo", queue="workers", cb=echo)
    await connection.flush()
    print("worker is ready", flush=True)
    await asyncio.Event().wait()


async def client(order: Order) -> Meter:
    if order.style == "inbox":
        return await through_one_inbox(order)
    connection = await connect(order.address)

    async def ask(body: bytes) -> bytes:
        answer: bytes = (await connection.request("echo", body, timeout=TIMEOUT_S)).data
        return answer

    meter = await ask_in_a_row(order, ask)
    await connection.close()
    return meter


async def through_one_inbox(order: Order) -> Meter:
    """By hand, for speed: no future and no timer per task; the last token of the subject says which task it is."""
    connection = await connect(order.address, **_quick_options())
    inbox = connection.new_inbox()
    meter, stream = order.begin()
    open_tasks: set[str] = set()
    all_done = asyncio.Event()
    numbers = iter(range(1 << 62))

    async def ask() -> None:
        body = next(stream, None)
        if body is not None:
            number = str(next(numbers))
            open_tasks.add(number)
            await connection.publish("echo", body, reply=f"{inbox}.{number}")

    async def take(message: Any) -> None:
        number = message.subject[len(inbox) + 1 :]
        if number not in open_tasks:
            return
        open_tasks.remove(number)
        meter.note(message.data)
        await ask()
        if not open_tasks:
            all_done.set()

    await connection.subscribe(f"{inbox}.*", cb=take)
    for _ in range(order.window):
        await ask()
    await asyncio.wait_for(all_done.wait(), order.seconds + TIMEOUT_S)
    await connection.close()
    return meter


def _quick_options() -> dict[str, bool]:
    """Newer versions check each subject with a regular expression, unless they are told not to."""
    known = inspect.signature(importlib.import_module("nats.aio.client").Client.connect).parameters
    return {name: True for name in ("skip_subject_validation",) if name in known}


LIBRARIES = {"nats": "nats-py"}
PEER = Peer("nats", start, client, {"worker": worker}, Needs(PROGRAMS, LIBRARIES))
WITH_TLS = replace(PEER, start=start_with_tls)
