"""Who talks to whom: a line, a ring, a star, everybody with everybody, or a tree with some extra connections."""

from __future__ import annotations

from itertools import combinations, pairwise
from random import Random

Pair = frozenset[str]

#: Beyond this, not everybody is connected with everybody.
FULL_MAX = 6


class Topology:
    def __init__(self, names: list[str], random: Random) -> None:
        self.pairs = _pairs(names, random)
        self.neighbours = {name: [other for other in names if frozenset({name, other}) in self.pairs] for name in names}
        self.diameter = max(_hops_to_all(self.neighbours, name) for name in names)


def _pairs(names: list[str], random: Random) -> list[Pair]:
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


def _hops_to_all(neighbours: dict[str, list[str]], start: str) -> int:
    """How far away the farthest one is. Everybody can be reached."""
    reached, hops = {start}, 0
    while len(reached) < len(neighbours):
        reached |= {other for name in reached for other in neighbours[name]}
        hops += 1
    return hops
