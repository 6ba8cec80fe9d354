"""Where everything happens that follows from one seed: time, random numbers, a network, wall clocks, and faults."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Set
from random import Random
from typing import Any

from famulus.core.clock import NS_PER_MS
from famulus.lab.sim.clock import Clock
from famulus.lab.sim.invariants import Broken, Invariant
from famulus.lab.sim.network import Network

#: What clocks show at the beginning, if they are right.
NOON_MS = 1_800_000_000_000
_DAY_MS = 24 * 60 * 60 * 1000


class World:
    def __init__(self, seed: int, name: str, steps_max: int) -> None:
        """Worlds with another name draw other random numbers, even from the same seed."""
        self.seed = seed
        self.random = Random(f"{name}/{seed}")
        self.clock = Clock()
        self.network = Network(self.clock, self.random)
        #: What is worth a mention, and how often it happened.
        self.events: Counter[str] = Counter()
        #: Those that struck, and when.
        self.faults: list[str] = []
        #: How wrong the wall clocks are.
        self.wall_errors_ms: Counter[str] = Counter()
        self._steps_max = steps_max
        self._starts_ns = self.clock.now_ns
        self._born = 0

    def new_name(self, role: str) -> str:
        self._born += 1
        return f"{role}-{self._born}"

    @property
    def age_ns(self) -> int:
        return self.clock.now_ns - self._starts_ns

    def run_until(self, age_ns: int, done: Callable[[], bool] | None = None) -> None:
        clock, until_ns = self.clock, self._starts_ns + age_ns
        while clock.next_ns < until_ns and not (done is not None and done()):
            clock.step()
            if clock.steps >= self._steps_max:
                raise Broken(Invariant.END, "it does not come to an end")

    # -- faults -------------------------------------------------------------------------------------------------

    def strike(self, fault: Callable[[Any], None], subject: object) -> None:
        self.faults.append(f"{self.clock.now_ns / NS_PER_MS:.0f} ms: {fault.__name__}")
        fault(subject)

    def part(self, places: list[str], longest_ns: int) -> None:
        """Some on one side, the others on the other; several such parts may overlap."""
        side = frozenset(self.random.sample(places, self.random.randint(1, len(places) - 1)))
        self.part_from(side, frozenset(places) - side, longest_ns)

    def part_from(self, one: Set[str], other: Set[str], longest_ns: int) -> None:
        self.network.part(one, other, self.random.randrange(100 * NS_PER_MS, longest_ns))

    def wall_ms(self, place: str) -> int:
        """As the clock there shows it."""
        return NOON_MS + self.clock.now_ns // NS_PER_MS + self.wall_errors_ms[place]

    def jump_wall_clock(self, place: str) -> None:
        """By a second, by an hour, or by years, in either direction."""
        jump_ms = self.random.choice([1000, 3_600_000, 4000 * _DAY_MS])
        self.wall_errors_ms[place] += self.random.choice([-jump_ms, jump_ms])
