"""The event loop of the asyncio clients and workers, ours and theirs alike."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from famulus.lab.bench.peers.meter import Meter
from famulus.lab.bench.peers.order import Order
from famulus.lab.bench.peers.peer import Needs, has_library

T = TypeVar("T")
NEEDS = Needs(libraries={"uvloop": "uvloop"})


def run(main: Coroutine[Any, Any, T]) -> T:
    """On uvloop if it is there."""
    factory = importlib.import_module("uvloop").new_event_loop if has_library("uvloop") else None
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(main)


async def ask_in_a_row(order: Order, ask: Callable[[bytes], Awaitable[bytes]]) -> Meter:
    """As many coroutines as the window is wide, each of which asks again as soon as it has its answer."""
    meter, stream = order.begin()

    async def again_and_again() -> None:
        for body in stream:
            meter.note(await ask(body))

    # Not a TaskGroup: of a thousand equal errors one is enough.
    await asyncio.gather(*(again_and_again() for _ in range(order.window)))
    return meter
