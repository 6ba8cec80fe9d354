"""One worker of eight is ten times slower, and an open load asks for 60 % of what all can do: what policies are for.

In invented time, so the figures are those of the policies and not of a busy machine. See `famulus bench policy`.
"""

from __future__ import annotations

from functools import cache

import pytest

from famulus.core.clock import NS_PER_MS
from famulus.core.delivery import Policy
from famulus.core.dispatch.by_key import ByKey
from famulus.core.dispatch.chooser import Candidate, mark_of
from famulus.lab.sim.uneven import Uneven, UnevenWorkers
from famulus.wire.inner import read_mark, write_mark

SEEDS = (1, 2)
OTHERS: tuple[Policy, ...] = ("least_busy", "ewma")


def plan(slots: int, *, one_by_one: bool = True, at_random: bool = False, slower: float = 10.0) -> Uneven:
    return Uneven(slots, one_by_one=one_by_one, at_random=at_random, slower=slower, tasks=3000, warm_up=1000)


@cache
def p99_ms(uneven: Uneven, policy: Policy, seed: int) -> float:
    return UnevenWorkers(uneven, policy, seed).p99_ns() / NS_PER_MS


def ratio(uneven: Uneven, policy: Policy, seed: int) -> float:
    return p99_ms(uneven, policy, seed) / p99_ms(uneven, "lru", seed)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("one_by_one", [True, False], ids=["one after the other", "all slots at once"])
@pytest.mark.parametrize("slots", [1, 2, 4, 8])
@pytest.mark.parametrize("policy", OTHERS)
def test_p99_is_at_most_half_of_that_of_lru(policy: Policy, slots: int, one_by_one: bool, seed: int) -> None:
    assert ratio(plan(slots, one_by_one=one_by_one), policy, seed) <= 0.5


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("slots", [4, 8])
@pytest.mark.parametrize("one_by_one", [True, False], ids=["one after the other", "all slots at once"])
@pytest.mark.parametrize("policy", OTHERS)
def test_also_if_tasks_come_at_random(policy: Policy, one_by_one: bool, slots: int, seed: int) -> None:
    assert ratio(plan(slots, one_by_one=one_by_one, at_random=True), policy, seed) <= 0.5


@pytest.mark.parametrize("policy", OTHERS)
def test_with_single_slots_and_tasks_at_random_none_can_help(policy: Policy) -> None:
    """All fast workers are busy so often that more than one task in a hundred has to go to the slow one."""
    assert ratio(plan(1, at_random=True), policy, 1) > 0.5


def test_lru_waits_for_the_slow_one() -> None:
    """Otherwise the others would be compared with nothing."""
    assert p99_ms(plan(4), "lru", 1) >= 4 * 90
    assert p99_ms(plan(4, slower=1.0), "lru", 1) <= 20


def test_all_keys_but_its_own_stay_when_one_of_eight_leaves() -> None:
    keys = [read_mark(write_mark(f"customer-{number}")) for number in range(2000)]
    for leaver in range(8):
        chooser = ByKey()
        workers = [Candidate(1, [], mark_of(b"worker-%d" % number)) for number in range(8)]
        for worker in workers:
            chooser.offer(worker)
        before = {key: home_of(chooser, key) for key in keys}
        chooser.leave(workers[leaver])
        after = {key: home_of(chooser, key) for key in keys}
        staying = [key for key in keys if before[key] is not workers[leaver]]
        kept = sum(before[key] is after[key] for key in staying) / len(staying)
        assert kept >= 0.95, "in fact all of them"
        assert sum(before[key] is not after[key] for key in keys) / len(keys) < 0.2, "an eighth, more or less"


def home_of(chooser: ByKey, key: int) -> Candidate:
    taken = chooser.take(key)
    assert taken is not None
    taken.free += 1
    for each in taken.unlisted:
        each.offer(taken)
    taken.unlisted.clear()
    return taken
