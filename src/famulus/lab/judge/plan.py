"""What is planted for a seed: a network of some size, and about half of the truths that there are."""

from __future__ import annotations

from random import Random

from famulus.lab.synth.plan import TRUTHS, Plan


def plan_for(seed: int) -> Plan:
    """One seed in ten has a journal in which nothing is wrong."""
    chance = Random(f"judge {seed}")
    hours = chance.randint(1, 4)
    truths = frozenset() if seed % 10 == 0 else frozenset(name for name in TRUTHS if chance.random() < 0.5)
    return Plan(
        tasks=hours * chance.randint(10_000, 20_000),
        hours=hours,
        seed=seed,
        brokers=chance.randint(2, 3),
        services=chance.randint(3, 5),
        workers=chance.randint(12, 36),
        truths=truths,
        load_every_s=10,
    )
