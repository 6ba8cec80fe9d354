"""What a broker must offer to be measured, and whether it is there."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import shutil
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from famulus.lab.bench.fleet import Crew
from famulus.lab.bench.meter import Meter, Order

#: Debian puts servers where a user's PATH does not look.
SERVERS_PATH = "/usr/local/sbin:/usr/sbin"

#: How long to wait for an answer from a peer.
TIMEOUT_S = 30.0

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Needs:
    #: Program and the Debian package that has it.
    programs: Mapping[str, str] = field(default_factory=dict)
    #: Module and the name under which pip knows it.
    libraries: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Peer:
    name: str
    #: Starts a server and a worker that can hold this many tasks at once; gives the address for clients.
    start: Callable[[Crew, int], str]
    client: Callable[[Order], Meter | Coroutine[Any, Any, Meter]]
    #: What else runs in a process of its own.
    roles: Mapping[str, Callable[..., Any]]
    needs: Needs = Needs()


def find_program(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ.get('PATH', os.defpath)}:{SERVERS_PATH}")


def program(name: str) -> str:
    path = find_program(name)
    assert path is not None, f"{name} was there a moment ago"
    return path


def has_library(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def absence(needs: Needs) -> str | None:
    """Why it cannot be measured and what would help, or None."""
    missing = [
        f"no program {each} (Debian package {of})" for each, of in needs.programs.items() if not find_program(each)
    ]
    missing += [
        f"no library {each} (pip install {of})" for each, of in needs.libraries.items() if not has_library(each)
    ]
    return ", ".join(missing) or None


# -- asyncio, ours and theirs alike -----------------------------------------------------------------------------------

UVLOOP = Needs(libraries={"uvloop": "uvloop"})


def run(made: T | Coroutine[Any, Any, T]) -> T:
    """What a worker or a client returned: a coroutine is run, on uvloop if it is installed."""
    if not isinstance(made, Coroutine):
        return made
    factory = importlib.import_module("uvloop").new_event_loop if has_library("uvloop") else None
    with asyncio.Runner(loop_factory=factory) as runner:
        result: T = runner.run(made)
        return result


def ask_ahead(order: Order, ask: Callable[[bytes], object], take: Callable[[], bytes]) -> Meter:
    """Sends as many requests as the window is wide before it takes the first answer, and then one more for each."""
    meter, stream = order.begin()
    opened = 0
    for body in stream:
        ask(body)
        opened += 1
        if opened == order.window:
            meter.note(take())
            opened -= 1
    for _ in range(opened):
        meter.note(take())
    return meter


async def ask_in_a_row(order: Order, ask: Callable[[bytes], Awaitable[bytes]]) -> Meter:
    """As many coroutines as the window is wide, each of which asks again as soon as it has its answer."""
    meter, stream = order.begin()

    async def again_and_again() -> None:
        for body in stream:
            meter.note(await ask(body))

    # Not a TaskGroup: one of a thousand equal errors is enough.
    await asyncio.gather(*(again_and_again() for _ in range(order.window)))
    return meter
