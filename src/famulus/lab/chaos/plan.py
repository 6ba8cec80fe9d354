"""Decides which faults strike whom and when. The same seed, length and network give the same plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

#: At the start the network settles, and at the end it heals.
CALM_S = 2.0
#: On average, between two faults.
EVERY_S = 0.8

#: Of a broker. `broker` is all of them at once; without the supervisor, the others end by themselves.
PARTS = ("broker", "supervisor", "dispatcher", "router", "steward", "scribe", "herald")
#: Kinds of faults, and how often each is chosen relative to the others.
WEIGHTS = {
    **{f"kill_{part}": 2 for part in PARTS},
    **{f"stop_{part}": 2 for part in PARTS},
    "kill_worker": 4,
    "stop_worker": 4,
    "drain_worker": 3,
    "kill_client": 2,
    "stop_client": 2,
    "drain_broker": 2,
    "disable_broker": 2,
    "edit_config": 12,
    "part_brokers": 4,
    "part_clients": 3,
    "cut_one_way": 4,
}
#: Those that need namespaces.
PARTING = frozenset({"part_brokers", "part_clients", "cut_one_way"})
#: Those that have to be undone afterwards: how long they last at least and at most.
LASTS_S = {"stop": (0.2, 6.0), "part": (1.0, 8.0), "cut": (1.0, 8.0), "disable": (1.0, 6.0)}


@dataclass(frozen=True, slots=True)
class Fault:
    at_s: float
    kind: str
    #: Brokers, workers or clients. For a one-way cut: who sends, and who does not receive it.
    whom: tuple[str, ...]
    #: 0 if it does not last.
    lasts_s: float = 0.0

    def __str__(self) -> str:
        lasts = f" for {self.lasts_s:.1f} s" if self.lasts_s else ""
        return f"{self.at_s:7.2f} s  {self.kind} {' '.join(self.whom)}{lasts}"


def plan(
    seed: int, seconds: float, brokers: Sequence[str], workers: Sequence[str], clients: Sequence[str], *, parting: bool
) -> list[Fault]:
    """What strikes within this many seconds; without `parting` nobody is cut off from anybody."""
    random = Random(f"chaos/{seed}")
    kinds = [kind for kind in WEIGHTS if parting or kind not in PARTING]
    weights = [WEIGHTS[kind] for kind in kinds]
    faults: list[Fault] = []
    at_s = CALM_S
    while at_s < seconds - CALM_S:
        kind = random.choices(kinds, weights)[0]
        whom = _whom(random, kind, brokers, workers, clients)
        least_s, most_s = LASTS_S.get(kind.partition("_")[0], (0.0, 0.0))
        # Nothing lasts beyond the end.
        lasts_s = min(random.uniform(least_s, most_s), seconds - at_s)
        faults.append(Fault(round(at_s, 3), kind, whom, round(lasts_s, 3)))
        at_s += random.expovariate(1 / EVERY_S)
    return faults


def _whom(
    random: Random, kind: str, brokers: Sequence[str], workers: Sequence[str], clients: Sequence[str]
) -> tuple[str, ...]:
    if kind.endswith("_worker"):
        return (random.choice(workers),)
    if kind.endswith("_client"):
        return (random.choice(clients),)
    if kind == "part_brokers":
        side = random.sample(brokers, random.randint(1, len(brokers) - 1))
        # Workers and clients end up on either side at random.
        return (*side, *(name for name in (*workers, *clients) if random.random() < 0.5))
    if kind == "part_clients":
        return tuple(random.sample(clients, random.randint(1, len(clients))))
    if kind == "cut_one_way":
        way = (random.choice(brokers), random.choice([*workers, *clients, *brokers]))
        if way[0] == way[1]:
            way = (brokers[0], brokers[1])
        return way if random.random() < 0.5 else way[::-1]
    return (random.choice(brokers),)
