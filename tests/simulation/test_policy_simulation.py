"""Whichever way workers are chosen, everything holds. A failing test names its seed and how to see it again."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.longer import examples
from tests.simulation.conftest import broken_runs

from famulus.core.delivery import Policy
from famulus.lab.sim.scenarios import ONE_BROKER, RIGHTS, SEVERAL_BROKERS
from famulus.lab.sim.tasks.mutants import OF_KEYS

OTHERS: tuple[Policy, ...] = ("least_busy", "ewma", "key")
SEEDS = examples(20)
CHUNK = 10


@pytest.mark.parametrize("policy", OTHERS)
@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_every_invariant_holds_whatever_fails(policy: Policy, first: int) -> None:
    scenario = ONE_BROKER.choosing_by(policy)
    broken = [what for seed in range(first, first + CHUNK) if (what := scenario.run(seed).what)]
    assert not broken, f"--policy {policy}: " + "\n".join(broken)


@pytest.mark.parametrize("policy", OTHERS)
def test_every_invariant_holds_among_several_brokers_too(policy: Policy) -> None:
    for scenario in (SEVERAL_BROKERS.choosing_by(policy), RIGHTS.choosing_by(policy)):
        broken = [what for seed in range(3) if (what := scenario.run(seed).what)]
        assert not broken, f"--policy {policy} --what {scenario.name}: " + "\n".join(broken)


def test_the_policy_is_what_the_dispatchers_follow_and_tasks_have_keys() -> None:
    tasks = ONE_BROKER.choosing_by("key").start(3)
    assert not tasks.run().what
    (broker,) = tasks.brokers.values()
    policies = Counter(service.policy for service in broker.core.services.by_name.values() if service.sessions)
    assert set(policies) == {3}
    assert broker._affinity is not None
    assert broker._affinity._preferred, "a task of a key had a choice"


@pytest.mark.parametrize("mutant", OF_KEYS)
def test_each_mutant_of_keys_is_caught(mutant: str) -> None:
    assert broken_runs(mutant, "--policy", "key", "--seeds", "50")
