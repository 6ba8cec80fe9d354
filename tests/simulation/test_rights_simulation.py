"""Networks in which principals are revoked, narrowed, widened and given new keys, while everything else may fail.

A failing test names its seed: famulus simulate --brokers 0 --what rights --seed S --trace
"""

from __future__ import annotations

from collections import Counter
from functools import cache

import pytest
from tests.simulation.conftest import broken_runs, printed

from famulus.core.clock import NS_PER_MS, NS_PER_S
from famulus.core.config.effective import Effective
from famulus.core.config.schema import Broker, Family, Principal
from famulus.lab.sim.invariants import Broken, Invariant
from famulus.lab.sim.scenarios import RIGHTS
from famulus.lab.sim.tasks.access import HEARD_NS, Access, Heard
from famulus.lab.sim.tasks.holders import ANYBODY, Holder
from famulus.lab.sim.workload import Result

run_seed = RIGHTS.run

#: Some five seconds on one core.
SEEDS = 24
CHUNK = 6

#: What makes these worlds interesting, and how often it happens at least in these seeds.
EVENTS = {
    "UNKNOWN by the loss of a peer": 5,
    "came over two brokers or more": 3,
    "handed over to another family": 50,
    "handed over within the family": 100,
    "key replaced": 10,
    "not let in": 10,
    "refused for lack of a right": 500,
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
    assert set(struck) == {fault.__name__ for fault in RIGHTS.faults}


def test_everything_interesting_happened() -> None:
    happened: Counter[str] = Counter()
    for result in results():
        happened.update(result.events)
    assert not {event: happened[event] for event, least in EVENTS.items() if happened[event] < least}


def test_networks_that_want_keys_that_accept_them_and_that_want_none_were_there() -> None:
    wanted = Counter(RIGHTS.start(seed)._keys for seed in range(SEEDS))
    assert set(wanted) == {"all", "remote", "none"}
    assert wanted["all"] > SEEDS / 3


def test_most_of_what_is_allowed_ends_well() -> None:
    """A network that refuses everything would be safe as well."""
    ended: Counter[str] = Counter()
    for result in results():
        ended.update(result.outcomes)
    assert ended["OK"] > ended.total() / 5


def test_a_seed_gives_the_same_world_with_other_hashes() -> None:
    script = (
        "import sys; from famulus.lab.sim.scenarios import RIGHTS; [print(RIGHTS.run(int(s))) for s in sys.argv[1:]]"
    )
    chosen = sorted(results(), key=lambda result: (-len(set(kinds(result))), result.seed))[:2]
    for hash_seed in ("1", "2"):
        assert printed(script, hash_seed, *(result.seed for result in chosen)) == [str(result) for result in chosen]


@pytest.mark.parametrize("name", RIGHTS.mutants)
def test_a_broken_rule_is_caught(name: str) -> None:
    (caught,) = broken_runs(name, "--brokers", "0", "--what", "rights", "--seeds", "150")
    assert caught["what"].startswith(f"seed {caught['seed']}, step {caught['step']}: ")
    assert observe(caught["seed"]).what == "", "and with the right rules it is a clean seed"


# -- the observer ---------------------------------------------------------------------------------------------------

SHOP = Holder("shop", call=("a",))


def config(*, allowed: bool, key: bytes = SHOP.key, keys: str = "all") -> Effective:
    known = {"shop": Principal((key.hex(),), ("own",), ("a",) if allowed else ())}
    families = {"own": Family(keys=keys)}  # type: ignore[arg-type]
    return Effective(1, "", families=families, brokers={"b0": Broker("own", "h", "00")}, principals=known)


def observer(*heard: tuple[int, Effective]) -> Access:
    made = Access([SHOP], Counter())
    made.by_broker["b0"] = Heard("b0")
    for at_ms, each in heard:
        made.by_broker["b0"].note(at_ms * NS_PER_MS, each)
    return made


def test_what_was_never_allowed_may_not_run() -> None:
    with pytest.raises(Broken, match="never might") as broken:
        observer((0, config(allowed=False))).check_run("b0", SHOP, "call", "a", NS_PER_S)
    assert broken.value.invariant is Invariant.PERMISSION
    observer((0, config(allowed=True))).check_run("b0", SHOP, "call", "a", NS_PER_S)


def test_what_is_not_allowed_any_more_may_run_for_a_moment() -> None:
    seen = observer((0, config(allowed=True)), (1000, config(allowed=False)))
    seen.check_run("b0", SHOP, "call", "a", NS_PER_S + HEARD_NS - NS_PER_MS)
    with pytest.raises(Broken, match="heard long ago") as broken:
        seen.check_run("b0", SHOP, "call", "a", NS_PER_S + HEARD_NS)
    assert broken.value.invariant is Invariant.REVOCATION


def test_a_broker_that_was_stopped_has_more_time() -> None:
    seen = observer((0, config(allowed=True)), (1000, config(allowed=False)))
    seen.by_broker["b0"].note_pause(4 * NS_PER_S, 3 * NS_PER_S)
    seen.check_run("b0", SHOP, "call", "a", 4 * NS_PER_S)
    with pytest.raises(Broken, match="heard long ago"):
        seen.check_run("b0", SHOP, "call", "a", 5 * NS_PER_S)


def test_who_has_no_key_may_do_anything_where_none_is_needed() -> None:
    for keys in ("none", "remote"):
        observer((0, config(allowed=False, keys=keys))).check_run("b0", ANYBODY, "call", "a", NS_PER_S)
    with pytest.raises(Broken, match="never might"):
        observer((0, config(allowed=False))).check_run("b0", ANYBODY, "call", "a", NS_PER_S)


def test_nobody_is_refused_what_was_allowed_all_the_time() -> None:
    with pytest.raises(Broken, match="it was refused") as broken:
        observer((0, config(allowed=True))).check_refused(SHOP, "a", NS_PER_S)
    assert broken.value.invariant is Invariant.ACCESS
    observer((0, config(allowed=False)), (900, config(allowed=True))).check_refused(SHOP, "a", NS_PER_S)


def test_no_key_is_turned_away_that_was_known_all_the_time() -> None:
    with pytest.raises(Broken, match="does not let it in") as broken:
        observer((0, config(allowed=True))).check_turned_away("b0", SHOP.key, NS_PER_S)
    assert broken.value.invariant is Invariant.ACCESS
    observer((0, config(allowed=True, key=bytes(32)))).check_turned_away("b0", SHOP.key, NS_PER_S)
    observer((0, config(allowed=True))).check_turned_away("b0", b"of nobody", NS_PER_S)
