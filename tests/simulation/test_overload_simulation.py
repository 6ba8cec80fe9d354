"""More work than workers can do: what can be done is done in time, and nothing is begun in vain."""

from __future__ import annotations

import pytest
from tests.simulation.conftest import broken_runs

from famulus.lab.sim.overload import draw
from famulus.lab.sim.scenarios import OVERLOAD

SEEDS = 12
CHUNK = 6


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_the_capacity_is_used_whatever_the_time_outs(first: int) -> None:
    for seed in range(first, first + CHUNK):
        result = OVERLOAD.run(seed)
        assert not result.what
        assert result.outcomes["OK"] > 0


def test_fast_and_slow_services_short_and_long_time_outs_occur() -> None:
    loads = [draw(seed) for seed in range(2 * SEEDS)]
    assert {load.work_ns // 1_000_000 for load in loads} >= {1, 8, 200, 1000}
    assert {load.slots for load in loads} >= {1, 2, 4, 8, 32}
    assert min(min(load.timeouts_ns) / load.work_ns for load in loads) < 1, "somebody never has time enough"
    assert max(max(load.timeouts_ns) / load.work_ns for load in loads) > 1000


def test_a_seed_that_is_run_twice_gives_the_same_world() -> None:
    assert OVERLOAD.run(24) == OVERLOAD.run(24)


@pytest.mark.parametrize("name", OVERLOAD.mutants)
def test_a_core_that_wastes_work_is_caught(name: str) -> None:
    (caught,) = broken_runs(name, "--what", "overload", "--seeds", "10")
    assert caught["invariant"] in OVERLOAD.mutants[name].caught_by
    assert caught["replay"] == f"famulus simulate --seed {caught['seed']} --what overload --mutant {name}"
