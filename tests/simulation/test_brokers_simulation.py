"""Networks of brokers in which anything may fail, and what becomes of their tasks.

A failing test names its seed: famulus simulate --brokers 0 --what tasks --seed S --trace
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from functools import cache

import pytest
from tests.simulation.conftest import broken_runs, printed

from famulus.core.delivery import OUTCOMES
from famulus.lab.sim.scenarios import SEVERAL_BROKERS
from famulus.lab.sim.tasks.setting import SEVERAL
from famulus.lab.sim.workload import Result

BROKERS_MIN, BROKERS_MAX = min(SEVERAL.brokers), max(SEVERAL.brokers)
run_seed = SEVERAL_BROKERS.run

#: About a quarter of a minute on one core; the mutants take as long once more.
SEEDS = 60
CHUNK = 6

#: What makes a network interesting, and how often it happens at least in these seeds.
EVENTS = {
    "ERROR from a peer": 50,
    "REJECTED from a peer": 20,
    "UNKNOWN from a peer": 50,
    "UNKNOWN by the loss of a peer": 30,
    "another attempt": 30,
    "another attempt after the loss of a peer": 10,
    "answered by a broker that its client had left": 3,
    "answered from memory": 3,
    "asked again under the same id": 20,
    "broker drained": 10,
    "came over two brokers or more": 100,
    "drained by an admin": 20,
    "failover of a client": 30,
    "given out again when its answer was forgotten": 3,
    "handed over to another family": 100,
    "handed over within the family": 500,
    "late answer": 200,
    "ran again": 10,
    "refused by a broker that is not active": 10,
    "second attempt": 100,
    "sent again by its client": 50,
    "worker at another broker": 100,
    "worker on its way back": 30,
}


#: The tests below look at the same runs from different sides.
observe = cache(run_seed)


def results() -> list[Result]:
    return [observe(seed) for seed in range(SEEDS)]


def kinds(result: Result) -> list[str]:
    return [fault.partition(": ")[2] for fault in result.faults]


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_every_law_holds_whatever_fails(first: int) -> None:
    broken = [what for seed in range(first, first + CHUNK) if (what := observe(seed).what)]
    assert not broken, "\n".join(broken)


def test_every_kind_of_fault_struck() -> None:
    struck = Counter(kind for result in results() for kind in kinds(result))
    assert set(struck) == {fault.__name__ for fault in SEVERAL_BROKERS.faults}
    assert min(struck.values()) >= 5


def test_every_outcome_occurred() -> None:
    ended: Counter[str] = Counter()
    for result in results():
        ended.update(result.outcomes)
    assert set(ended) == set(OUTCOMES)
    assert min(ended.values()) >= 200


def test_everything_interesting_happened() -> None:
    """A simulation in which nothing happens proves nothing."""
    happened: Counter[str] = Counter()
    for result in results():
        happened.update(result.events)
    rare = {event: happened[event] for event, least in EVENTS.items() if happened[event] < least}
    assert not rare


def test_small_and_large_families_were_there() -> None:
    sizes = {result.brokers for result in results()}
    # Besides the family there are one or two that it falls back on.
    assert min(sizes) == BROKERS_MIN + 1
    assert max(sizes) > BROKERS_MAX


def test_some_worlds_are_quiet_and_most_tasks_in_them_end_well() -> None:
    """A network in which nothing works would break no law either."""
    quiet = [result for result in results() if not result.faults]
    assert len(quiet) >= 5
    ended: Counter[str] = Counter()
    for result in quiet:
        ended.update(result.outcomes)
    # A seventh is asked of nobody, and slots are few.
    assert ended["OK"] + ended["ERROR"] > ended.total() / 3


def test_one_can_say_how_many_brokers_there_are() -> None:
    for brokers in (BROKERS_MIN, 7):
        result = run_seed(1, brokers)
        assert (result.what, result.brokers - brokers in (1, 2)) == ("", True)


# -- a seed is a fact ---------------------------------------------------------------------------------------------


def wildest(count: int) -> list[Result]:
    """Runs with many kinds of faults."""
    return sorted(results(), key=lambda result: (-len(set(kinds(result))), result.seed))[:count]


def test_a_seed_gives_the_same_world_with_other_hashes() -> None:
    script = (
        "import sys; from famulus.lab.sim.scenarios import SEVERAL_BROKERS; "
        "[print(SEVERAL_BROKERS.run(int(s))) for s in sys.argv[1:]]"
    )
    chosen = wildest(3)
    for hash_seed in ("1", "2"):
        assert printed(script, hash_seed, *(result.seed for result in chosen)) == [str(result) for result in chosen]


def test_two_seeds_give_two_worlds() -> None:
    assert len({result.steps for result in results()}) > SEEDS // 2


# -- the simulation can fail --------------------------------------------------------------------------------------

NETWORK = ("--brokers", "0", "--what", "tasks")


@pytest.mark.parametrize("name", SEVERAL_BROKERS.mutants)
def test_a_broken_rule_is_caught(name: str) -> None:
    # A run ends with the first seed that shows it; few worlds have tasks that pass more than three brokers.
    (caught,) = broken_runs(name, *NETWORK, "--seeds", str(5 * SEEDS))
    assert caught["what"].startswith(f"seed {caught['seed']}, step {caught['step']}: ")
    assert observe(caught["seed"]).what == "", "and with the right rules it is a clean seed"


def test_what_is_caught_can_be_seen_again() -> None:
    (caught,) = broken_runs("ignores-via", *NETWORK, "--seeds", str(SEEDS))
    command = caught["replay"].split()
    assert command[:2] == ["famulus", "simulate"]
    done = subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True, check=False, timeout=110)
    assert done.returncode == 0, done.stderr
    assert caught["what"] in done.stdout
    assert f"{caught['step']:>7} " in done.stdout
