"""A hundred worlds in which anything may fail. A failing test names its seed: famulus simulate --seed S --trace"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, replace
from functools import cache, partial

import pytest
from tests.longer import examples
from tests.simulation.conftest import broken_runs, printed

from famulus.core.delivery import OUTCOMES
from famulus.lab.sim.scenarios import ONE_BROKER, Scenario
from famulus.lab.sim.tasks.setting import ONE, Setting
from famulus.lab.sim.tasks.workload import Tasks
from famulus.lab.sim.workload import Result

SEEDS = examples(100)
CHUNK = 10


@dataclass(frozen=True, slots=True)
class Observation:
    """One run, and what an outside observer wrote down about it."""

    result: Result
    #: Per task: its body, how often it ran, and when and how it ended.
    entries: list[tuple[str, int, list[tuple[int, str, str]]]]
    ran_again: int

    @property
    def fault_kinds(self) -> list[str]:
        return [fault.partition(": ")[2] for fault in self.result.faults]


def observe_anew(seed: int) -> Observation:
    tasks = ONE_BROKER.start(seed)
    result = tasks.run()
    entries = [(body.decode(), entry.runs, entry.outcomes) for body, entry in tasks.ledger.entries.items()]
    ran_again = sum(entry.runs > 1 for entry in tasks.ledger.entries.values() if entry.at_least_once)
    return Observation(result, entries, ran_again)


#: The tests below look at the same runs from different sides.
observe = cache(observe_anew)


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_every_invariant_holds_whatever_fails(first: int) -> None:
    broken = [what for seed in range(first, first + CHUNK) if (what := observe(seed).result.what)]
    assert not broken, "\n".join(broken)


def one_broker(setting: Setting) -> Scenario[Tasks]:
    return replace(ONE_BROKER, workload=partial(Tasks, setting=setting))


@pytest.mark.parametrize("first", range(0, SEEDS, 6 * CHUNK))
def test_every_invariant_holds_without_flows_too(first: int) -> None:
    scenario = one_broker(replace(ONE, flows_max=0))
    for seed in range(first, first + CHUNK):
        result = scenario.run(seed)
        assert (result.what, result.figures["by_flow"]) == ("", 0)


@pytest.mark.parametrize("first", range(0, SEEDS, 3 * CHUNK))
def test_the_flow_table_makes_no_difference_to_any_task(first: int) -> None:
    """Where routers decide on the spot, the short way takes no less time, and all that happens must be the same.

    Only what is told in one moment may be told in another order: a slot is free before a router has read the answer.
    """
    by_flow = 0.0
    instant = replace(ONE, instant=True)
    for seed in range(first, first + CHUNK):
        both = [one_broker(setting).start(seed) for setting in (instant, replace(instant, flows_max=0))]
        results = [tasks.run() for tasks in both]
        assert [result.what for result in results] == ["", ""]
        by_flow += results[0].figures["by_flow"]
        ends = [
            {
                body: (entry.runs, [(outcome, reason) for _, outcome, reason in entry.outcomes])
                for body, entry in tasks.ledger.entries.items()
            }
            for tasks in both
        ]
        assert ends[0] == ends[1], f"seed {seed}"
    assert by_flow > 20, "else this compares nothing"


def test_flows_are_met_in_most_worlds() -> None:
    assert sum(observe(seed).result.figures["by_flow"] > 0 for seed in range(SEEDS)) > SEEDS // 2


def test_every_kind_of_fault_struck() -> None:
    struck = Counter(kind for seed in range(SEEDS) for kind in observe(seed).fault_kinds)
    assert set(struck) == {fault.__name__ for fault in ONE_BROKER.faults}
    assert min(struck.values()) >= 20


def test_every_outcome_occurred_and_some_tasks_ran_again() -> None:
    ended: Counter[str] = Counter()
    for seed in range(SEEDS):
        ended.update(observe(seed).result.outcomes)
    assert set(ended) == set(OUTCOMES)
    assert min(ended.values()) >= 200
    assert sum(observe(seed).ran_again for seed in range(SEEDS)) >= 10


def test_some_worlds_are_quiet_and_most_tasks_in_them_end_well() -> None:
    """A world where nothing works would break no invariant either."""
    quiet = [observe(seed) for seed in range(SEEDS) if not observe(seed).result.faults]
    assert len(quiet) >= SEEDS // 10
    ran = sum(seen.result.outcomes.get("OK", 0) + seen.result.outcomes.get("ERROR", 0) for seen in quiet)
    asked = sum(seen.result.tasks for seen in quiet)
    # A fifth is asked of nobody, and many are asked of services that have no worker in that world.
    assert ran > asked / 3


# -- a seed is a fact ---------------------------------------------------------------------------------------------


def wildest(count: int) -> list[int]:
    """Seeds with many faults of many kinds."""
    return sorted(range(SEEDS), key=lambda seed: (-len(set(observe(seed).fault_kinds)), seed))[:count]


def test_a_seed_that_is_run_twice_gives_the_same_world() -> None:
    for seed in wildest(5):
        assert observe_anew(seed) == observe(seed)


def test_two_seeds_give_two_worlds() -> None:
    assert len({observe(seed).result.steps for seed in range(50)}) > 40


def test_a_seed_gives_the_same_world_in_another_process_with_other_hashes() -> None:
    """Sets and dicts of bytes are ordered by hashes that differ between processes, if one lets them."""
    script = (
        "import json, sys\n"
        "from famulus.lab.sim.scenarios import ONE_BROKER\n"
        "for seed in map(int, sys.argv[1:]):\n"
        "    tasks = ONE_BROKER.start(seed)\n"
        "    result = tasks.run()\n"
        "    entries = [(b.decode(), e.runs, e.outcomes) for b, e in tasks.ledger.entries.items()]\n"
        "    print(json.dumps([result.steps, result.faults, entries]))\n"
    )
    seeds = wildest(4)
    seen = [observe(seed) for seed in seeds]
    expected = [json.loads(json.dumps([each.result.steps, each.result.faults, each.entries])) for each in seen]
    for hash_seed in ("1", "2"):
        told = printed(script, hash_seed, *seeds)
        assert [json.loads(line) for line in told] == expected


# -- the simulation can fail --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ONE_BROKER.mutants)
def test_a_broken_core_is_caught(name: str) -> None:
    (caught,) = broken_runs(name, "--seeds", "400")
    assert caught["what"].startswith(f"seed {caught['seed']}, step {caught['step']}: ")
    assert observe(caught["seed"]).result.what == "", "and with the right core it is a clean seed"
