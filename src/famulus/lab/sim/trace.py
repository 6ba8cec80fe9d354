"""The last steps of a run, in words."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from famulus.lab.sim.clock import Event
from famulus.lab.sim.network import Link
from famulus.lab.sim.world import World

STEPS_SHOWN = 40
FRAME_CHARS_SHOWN = 100


class Trace:
    def __init__(self, world: World) -> None:
        self._world = world
        self._last: deque[str] = deque(maxlen=STEPS_SHOWN)
        world.clock.watch = self._note

    def _note(self, step: int, time_ns: int, event: Event) -> None:
        self._last.append(f"{step:>7}{time_ns / 1e6:>12.3f} ms  {_describe(event)}")

    def __str__(self) -> str:
        faults = [f"  {fault}" for fault in self._world.faults]
        return "\n".join(["faults:", *faults, f"the last {len(self._last)} steps:", *self._last, ""])


def _describe(event: Event) -> str:
    """Who wakes up, which message arrives where, or whatever else happens to whom."""
    args: tuple[Any, ...] = ()
    does: Callable[..., object] = event
    if isinstance(event, partial):
        does, args = event.func, event.args
    owner = getattr(does, "__self__", None)
    if isinstance(owner, Link) and does == owner.arrive:
        towards_broker, message = args
        return f"{owner.describe(towards_broker)}  {' | '.join(map(_readable, message))}"
    if owner is None:
        return does.__qualname__.replace(".<locals>.<lambda>", "")
    names = [arg if isinstance(arg, str) else getattr(arg, "name", getattr(arg, "__name__", "")) for arg in args]
    who = getattr(owner, "name", type(owner).__name__.lower())
    return " ".join([who, does.__name__.strip("_") + "s", *filter(None, names)])


def _readable(frame: bytes) -> str:
    # What is not text becomes something that cannot be printed either.
    text = frame.decode(errors="surrogateescape")
    if not text.isprintable():
        text = "0x" + frame.hex()
    return text if len(text) <= FRAME_CHARS_SHOWN else text[:FRAME_CHARS_SHOWN] + "..."
