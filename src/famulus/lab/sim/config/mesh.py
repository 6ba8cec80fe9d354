"""Who is connected with whom, and an invented network that loses, doubles and overtakes messages."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import combinations, pairwise
from random import Random

from famulus.core.clock import NS_PER_MS
from famulus.lab.sim.network import Clock

Pair = frozenset[str]

#: No message is under way for longer.
DELAY_NS_MAX = 50 * NS_PER_MS
#: Beyond this, not everybody is connected with everybody.
FULL_MAX = 6


class Mesh:
    def __init__(
        self, clock: Clock, random: Random, names: list[str], deliver: Callable[[str, str, bytes], None]
    ) -> None:
        self._clock = clock
        self._random = random
        self._deliver = deliver
        self.pairs = _pairs(names, random)
        self.neighbours = {name: [other for other in names if frozenset({name, other}) in self.pairs] for name in names}
        self.diameter = max(max(_distances(self.neighbours, name).values()) for name in names)
        #: Of the messages, how many get lost, and how many come twice.
        self.loss = random.choice([0.0, 0.05, 0.3])
        self.doubles = random.choice([0.0, 0.1])
        #: How often each pair is cut off from each other at the moment.
        self._cuts: dict[Pair, int] = {}

    def send(self, sender: str, receiver: str, message: bytes) -> None:
        if self._cuts.get(frozenset({sender, receiver})) or self._random.random() < self.loss:
            return
        for _ in range(2 if self._random.random() < self.doubles else 1):
            self._clock.after(self._delay_ns(), lambda: self._arrive(sender, receiver, message))

    def _arrive(self, sender: str, receiver: str, message: bytes) -> None:
        if not self._cuts.get(frozenset({sender, receiver})):
            self._deliver(sender, receiver, message)

    def _delay_ns(self) -> int:
        # Mostly quick, now and then slow: the slow ones are overtaken.
        slow = self._random.random() < 0.1
        return self._random.randrange(DELAY_NS_MAX if slow else 2 * NS_PER_MS)

    # -- faults -------------------------------------------------------------------------------------------------

    def cut(self, pairs: list[Pair], for_ns: int) -> None:
        for pair in pairs:
            self._cuts[pair] = self._cuts.get(pair, 0) + 1
        self._clock.after(for_ns, lambda: self._mend(pairs))

    def _mend(self, pairs: list[Pair]) -> None:
        for pair in pairs:
            self._cuts[pair] = max(0, self._cuts.get(pair, 0) - 1)

    def part(self, names: set[str], for_ns: int) -> None:
        """These on one side, all others on the other."""
        self.cut([pair for pair in self.pairs if len(pair & names) == 1], for_ns)

    def heal(self) -> None:
        self._cuts.clear()
        self.loss = 0.0


def _pairs(names: list[str], random: Random) -> list[Pair]:
    """A line, a ring, a star, everybody with everybody, or a tree with some more connections."""
    shapes = ["line", "ring", "star", "tree", "tree"] + (["full"] if len(names) <= FULL_MAX else [])
    shape = random.choice(shapes)
    if shape == "full":
        return [frozenset(pair) for pair in combinations(names, 2)]
    if shape == "star":
        return [frozenset({names[0], name}) for name in names[1:]]
    if shape in ("line", "ring"):
        pairs = [frozenset(pair) for pair in pairwise(names)]
        return [*pairs, frozenset({names[0], names[-1]})] if shape == "ring" else pairs
    tree = [frozenset({name, random.choice(names[:number])}) for number, name in enumerate(names) if number]
    more = [frozenset(random.sample(names, 2)) for _ in range(len(names) // 2)]
    return list(dict.fromkeys([*tree, *more]))


def _distances(neighbours: dict[str, list[str]], start: str) -> dict[str, int]:
    distances = {start: 0}
    waiting = deque([start])
    while waiting:
        name = waiting.popleft()
        for other in neighbours[name]:
            if other not in distances:
                distances[other] = distances[name] + 1
                waiting.append(other)
    return distances
