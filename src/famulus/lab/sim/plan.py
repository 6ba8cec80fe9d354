"""A plan of faults: which of some kinds strike when, drawn from the seed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Protocol, TypeVar

from famulus.core.clock import NS_PER_MS
from famulus.lab.sim.network import Clock


class Stricken(Protocol):
    """A world in which faults can strike; it writes down which did."""

    clock: Clock
    random: Random
    faults: list[str]


World = TypeVar("World", bound=Stricken)
Fault = Callable[[World], None]


def plan(
    world: World, weights: Mapping[Fault[World], int], kinds: Sequence[Fault[World]], count: int, until_ns: int
) -> None:
    """So many faults of these kinds, those with more weight more often, at any time until then."""
    for _ in range(count):
        fault = world.random.choices(kinds, [weights[kind] for kind in kinds])[0]
        world.clock.after(world.random.randrange(until_ns), lambda fault=fault: strike(world, fault))  # type: ignore[misc]


def strike(world: World, fault: Fault[World]) -> None:
    world.faults.append(f"{world.clock.now_ns / NS_PER_MS:.0f} ms: {fault.__name__}")
    fault(world)
