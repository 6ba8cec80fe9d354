from __future__ import annotations

from collections import Counter

from famulus.lab.chaos.plan import PARTING, WEIGHTS, Fault, plan

NAMES = (["b1", "b2", "b3"], ["w1", "w2"], ["c1", "c2"])


def planned(seed: int, seconds: float = 300.0, *, parting: bool = True) -> list[Fault]:
    return plan(seed, seconds, *NAMES, parting=parting)


def test_a_seed_gives_the_same_plan_again_and_another_seed_another_one() -> None:
    assert planned(7) == planned(7)
    assert planned(7) != planned(8)


def test_every_kind_of_fault_strikes_in_some_minutes() -> None:
    struck = Counter(fault.kind for seed in range(5) for fault in planned(seed))
    assert set(struck) == set(WEIGHTS)


def test_without_namespaces_nobody_is_parted() -> None:
    assert not PARTING & {fault.kind for fault in planned(3, parting=False)}


def test_faults_are_in_order_and_none_lasts_beyond_the_end() -> None:
    faults = planned(4, 60.0)
    assert [fault.at_s for fault in faults] == sorted(fault.at_s for fault in faults)
    assert all(fault.at_s + fault.lasts_s <= 60.0 + 1e-3 for fault in faults)


def test_faults_strike_who_can_be_struck_by_them() -> None:
    brokers, workers, clients = map(set, NAMES)
    for fault in planned(5, 2000.0):
        whom = set(fault.whom)
        if fault.kind.endswith("_worker"):
            assert whom <= workers
        elif fault.kind.endswith("_client"):
            assert whom <= clients
        elif fault.kind == "cut_one_way":
            assert len(whom) == 2
            assert whom & brokers
        elif fault.kind == "part_brokers":
            assert whom & brokers
            assert brokers - whom, "some stay on the other side"
        elif fault.kind == "part_clients":
            assert whom <= clients
        else:
            assert whom <= brokers
