"""Hundreds of networks of stewards in which anything may fail. A failure names its seed: run_seed(S) fails again."""

from __future__ import annotations

import os
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from functools import cache
from multiprocessing import get_context

import pytest
from tests.longer import examples
from tests.simulation.conftest import printed

from famulus.lab.sim.config.workload import SIZES
from famulus.lab.sim.scenarios import CONFIG
from famulus.lab.sim.workload import Result

BROKERS_MIN, BROKERS_MAX = min(SIZES), max(SIZES)
SEEDS = examples(60)


def run_seed(seed: int, brokers: int = 0, mutant: str = "") -> Result:
    with CONFIG.mutants[mutant].in_place() if mutant else nullcontext():
        return CONFIG.run(seed, brokers)


@cache
def results() -> list[Result]:
    """The tests below look at the same runs from different sides."""
    # Not forked: whoever runs the tests may have threads.
    with ProcessPoolExecutor(len(os.sched_getaffinity(0)), get_context("spawn")) as processes:
        return list(processes.map(run_seed, range(SEEDS), chunksize=10))


def test_every_invariant_holds_whatever_fails() -> None:
    broken = [result.what for result in results() if result.what]
    assert not broken, "\n".join(broken)


def test_every_kind_of_fault_struck() -> None:
    struck = Counter(fault.partition(": ")[2] for result in results() for fault in result.faults)
    assert set(struck) == {fault.__name__ for fault in CONFIG.faults}
    assert min(struck.values()) >= SEEDS // 5


def test_admins_got_into_each_others_way() -> None:
    assert sum(result.edits for result in results()) >= 10 * SEEDS
    assert sum(result.figures["moved"] for result in results()) >= SEEDS
    assert sum(result.figures["conflicts"] for result in results()) >= SEEDS
    assert sum(result.figures["conflicts"] > 0 for result in results()) >= SEEDS // 3


def test_small_and_large_wide_and_narrow_networks_were_there() -> None:
    sizes = {result.brokers for result in results()}
    widths = {result.figures["diameter"] for result in results()}
    assert min(sizes) == BROKERS_MIN
    assert max(sizes) == BROKERS_MAX
    assert min(widths) == 1
    assert max(widths) >= 8


def test_some_had_a_long_way_to_agree_and_some_agreed_already() -> None:
    assert sum(result.figures["agreed_ms"] == 0 for result in results()) >= 10
    assert sum(result.figures["agreed_ms"] >= 500 for result in results()) >= 10


def test_one_can_say_how_many_brokers_there_are() -> None:
    for brokers in (BROKERS_MIN, 9, BROKERS_MAX):
        result = run_seed(1, brokers)
        assert (result.brokers, result.what) == (brokers, "")


# -- a seed is a fact ---------------------------------------------------------------------------------------------


def wildest(count: int) -> list[Result]:
    """Runs with many faults of many kinds."""
    kinds = {result.seed: len({fault.partition(": ")[2] for fault in result.faults}) for result in results()}
    return sorted(results(), key=lambda result: (-kinds[result.seed], result.seed))[:count]


def test_a_seed_that_is_run_twice_gives_the_same_world() -> None:
    for result in wildest(5):
        assert run_seed(result.seed) == result


def test_two_seeds_give_two_worlds() -> None:
    assert len({result.steps for result in results()}) > SEEDS // 2


def test_a_seed_gives_the_same_world_with_other_hashes() -> None:
    """Sets are ordered by hashes that differ between processes, if one lets them."""
    chosen = wildest(4)
    script = (
        "import sys; from famulus.lab.sim.scenarios import CONFIG; [print(CONFIG.run(int(s))) for s in sys.argv[1:]]"
    )
    for hash_seed in ("1", "2"):
        assert printed(script, hash_seed, *(result.seed for result in chosen)) == [str(result) for result in chosen]


# -- the simulation can fail --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CONFIG.mutants)
def test_wrong_rules_are_caught_and_their_seed_fails_at_the_same_step_again(name: str) -> None:
    catchers = CONFIG.mutants[name].caught_by
    caught = next((result for seed in range(20) if (result := run_seed(seed, mutant=name)).invariant in catchers), None)
    assert caught is not None, f"nobody noticed that {CONFIG.mutants[name].what}"
    assert caught.what.startswith(f"seed {caught.seed}, step {caught.steps}: {caught.invariant}: ")
    assert run_seed(caught.seed, mutant=name) == caught
    assert run_seed(caught.seed).what == "", "and with the right rules it is a clean seed"
