"""Which worker gets the next task of a service, by each policy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from famulus.core.clock import NS_PER_MS, NS_PER_S
from famulus.core.delivery import Policy, ServicePolicy
from famulus.core.dispatch.by_key import ByKey, weight_of
from famulus.core.dispatch.chooser import Candidate, Chooser, mark_of
from famulus.core.dispatch.ewma import DECAY_NS, Ewma, Peak
from famulus.core.dispatch.least_busy import REST_NS, LeastBusy
from famulus.core.dispatch.policies import chooser_of
from famulus.wire.inner import POLICIES, read_mark, write_mark

if TYPE_CHECKING:
    from tests.unit.core.conftest import Broker

KEYS = [read_mark(write_mark(f"customer-{number}")) for number in range(2000)]


def listed(chooser: Chooser, *slots: int) -> list[Candidate]:
    """Workers with these slots, all of them free."""
    workers = [Candidate(each, [], mark_of(b"worker-%d" % number)) for number, each in enumerate(slots)]
    for worker in workers:
        chooser.offer(worker)
    return workers


def give_back(worker: Candidate) -> None:
    worker.free += 1
    for chooser in worker.unlisted:
        chooser.offer(worker)
    worker.unlisted.clear()


# -- least busy ---------------------------------------------------------------------------------------------------


def test_the_least_busy_is_the_one_with_the_smallest_share_of_its_slots_taken() -> None:
    chooser = LeastBusy()
    small, large = listed(chooser, 2, 8)
    taken = [chooser.take(0) for _ in range(11)]
    assert taken[:6] == [small, large, large, large, large, small]
    assert Counter(taken) == {small: 2, large: 8, None: 1}


def taken_from(chooser: Chooser) -> Candidate:
    taken = chooser.take(0)
    assert taken is not None
    return taken


def test_a_slow_worker_counts_as_one_that_has_more_to_do() -> None:
    chooser = LeastBusy()
    slow, *others = listed(chooser, 8, 8, 8)
    for worker in (*others, slow, slow):
        chooser.answered(worker, (100 if worker is slow else 10) * NS_PER_MS, 0)
    taken = [taken_from(chooser) for _ in range(24)]
    assert slow not in taken[:8]
    assert taken[:12].count(slow) == 1
    assert taken[12:].count(slow) == 7, "it is used when all others are full"


def test_one_task_that_took_long_makes_no_worker_slow() -> None:
    chooser = LeastBusy()
    first, *_ = listed(chooser, 1, 1, 1)
    for took_ms in (10, 100, 10, 100):
        chooser.answered(first, took_ms * NS_PER_MS, 0)
    assert taken_from(chooser) is first


def test_a_slow_worker_is_tried_again_after_a_while_or_when_it_is_quick_again() -> None:
    chooser = LeastBusy()
    slow, other = listed(chooser, 2, 2)
    for took_ms in (10, 100, 100):
        chooser.answered(slow, took_ms * NS_PER_MS, 0)
    assert [taken_from(chooser) for _ in range(2)] == [other, other]
    give_back(other)
    give_back(other)
    chooser.answered(other, 10 * NS_PER_MS, REST_NS)
    assert taken_from(chooser) is slow
    give_back(slow)
    for took_ms in (100, 100, 10):
        chooser.answered(slow, took_ms * NS_PER_MS, REST_NS)
    assert {taken_from(chooser) for _ in range(2)} == {slow, other}


def test_if_all_take_longer_that_is_usual_from_then_on() -> None:
    chooser = LeastBusy()
    workers = listed(chooser, 1, 1, 1)
    for took_ms in [10] * 30 + [100] * 60:
        for worker in workers:
            chooser.answered(worker, took_ms * NS_PER_MS, 0)
    assert not chooser._slow
    chooser.leave(workers[0])
    assert workers[0] not in chooser.listed()


def test_equally_busy_workers_take_turns() -> None:
    chooser = LeastBusy()
    a, b, c = listed(chooser, 1, 1, 1)
    order = []
    for _ in range(6):
        taken = chooser.take(0)
        assert taken is not None
        give_back(taken)
        order.append(taken)
    assert order == [a, b, c, a, b, c]


# -- by answer times ----------------------------------------------------------------------------------------------


def test_a_peak_rises_at_once_and_comes_down_slowly() -> None:
    peak = Peak()
    peak.add(10, 0)
    peak.add(1000, 1)
    assert peak.ns == 1000
    peak.add(10, 2)
    assert 990 < peak.ns < 1000
    assert peak.left_ns(2 + DECAY_NS) == pytest.approx(peak.ns / 2.718, rel=0.01)
    peak.add(10, 2 + 20 * DECAY_NS)
    assert peak.ns == pytest.approx(10, rel=0.01)


def answers(chooser: Chooser, tasks: int, times_ns: dict[Candidate, int], start_ns: int = 0) -> Counter[Candidate]:
    """Who gets how many of these tasks, one after the other, if each worker takes as long as this."""
    got: Counter[Candidate] = Counter()
    now_ns = start_ns
    for _ in range(tasks):
        taken = chooser.take(0)
        assert taken is not None
        got[taken] += 1
        now_ns += NS_PER_MS
        chooser.answered(taken, times_ns[taken], now_ns)
        give_back(taken)
    return got


def test_a_slow_worker_is_found_out_with_one_task() -> None:
    chooser = Ewma()
    slow, *fast = workers = listed(chooser, *[4] * 8)
    got = answers(chooser, 1000, dict.fromkeys(fast, NS_PER_MS) | {slow: 10 * NS_PER_MS})
    assert got[slow] == 1
    assert min(got[worker] for worker in workers if worker is not slow) > 70


def test_a_slow_worker_is_tried_again_after_a_while() -> None:
    chooser = Ewma()
    slow, *fast = listed(chooser, *[4] * 8)
    answers(chooser, 100, dict.fromkeys(fast, NS_PER_MS) | {slow: 10 * NS_PER_MS})
    later_ns = 10 * DECAY_NS
    got = answers(chooser, 1000, dict.fromkeys([slow, *fast], NS_PER_MS), later_ns)
    assert got[slow] > 70


def test_a_newcomer_has_to_answer_before_it_gets_more() -> None:
    chooser = Ewma()
    known = listed(chooser, 100)[0]
    chooser.answered(known, NS_PER_S, NS_PER_S)
    newcomer = Candidate(100, [])
    chooser.offer(newcomer)
    assert [chooser.take(0) for _ in range(20)].count(newcomer) == 1


def test_who_has_left_is_forgotten_even_if_it_answers_later() -> None:
    chooser = Ewma()
    (worker,) = listed(chooser, 2)
    assert chooser.take(0) is worker
    chooser.leave(worker)
    chooser.answered(worker, 1, 1)
    assert (chooser.take(0), chooser.listed(), chooser._peaks) == (None, [], {})


# -- by key -------------------------------------------------------------------------------------------------------


def homes(workers: list[Candidate]) -> dict[int, Candidate]:
    """Where each key goes while all of these have room."""
    return {key: max(workers, key=lambda worker: weight_of(key, worker.mark)) for key in KEYS}


def test_a_key_goes_to_its_worker_again_and_again() -> None:
    chooser = ByKey()
    workers = listed(chooser, *[2] * 8)
    for key, home in homes(workers).items():
        taken = [chooser.take(key), chooser.take(key)]
        assert taken == [home, home]
        give_back(home)
        give_back(home)


def test_keys_are_shared_evenly() -> None:
    shares = Counter(homes(listed(ByKey(), *[1] * 8)).values())
    assert len(shares) == 8
    assert max(shares.values()) < 1.25 * len(KEYS) / 8
    assert min(shares.values()) > 0.75 * len(KEYS) / 8


def test_who_leaves_gives_up_its_own_keys_and_no_others() -> None:
    workers = listed(ByKey(), *[1] * 8)
    before, after = homes(workers), homes(workers[1:])
    assert all(after[key] is home for key, home in before.items() if home is not workers[0])
    # And they are shared by all that stay.
    assert len({after[key] for key, home in before.items() if home is workers[0]}) == 7


def test_a_key_spills_over_to_the_same_second_worker_and_comes_back() -> None:
    chooser = ByKey()
    workers = listed(chooser, 1, 1, 1)
    ranked = sorted(workers, key=lambda worker: -weight_of(KEYS[0], worker.mark))
    assert [chooser.take(KEYS[0]) for _ in range(4)] == [*ranked, None]
    give_back(ranked[2])
    give_back(ranked[0])
    assert chooser.take(KEYS[0]) is ranked[0]


def test_tasks_without_a_key_take_turns() -> None:
    chooser = ByKey()
    a, b = listed(chooser, 2, 2)
    assert [chooser.take(0) for _ in range(4)] == [a, b, a, b]


def test_a_mark_is_the_same_everywhere() -> None:
    """A broker that is started again must agree with its former self, whatever its version."""
    worker, key = mark_of(b"worker-1"), read_mark(write_mark("customer-1"))
    assert (worker, key, weight_of(key, worker)) == (1901210986, 2491015801, 1575956374)
    assert read_mark(b"") == 0
    assert read_mark(bytes(4)) != 0


# -- at a broker --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", POLICIES)
def test_all_slots_are_used_by_any_policy(broker_with: Callable[..., Broker], policy: Policy) -> None:
    broker = broker_with(echo=ServicePolicy(policy=policy))
    bob, eve = (broker.worker(name, "echo", slots=2).starts() for name in ("bob", "eve"))
    ann = broker.client("ann")
    for number in range(5):
        ann.asks("echo", b"%d" % number, key="k")
    got = [*bob.hears(), *eve.hears()]
    assert sorted(heard.body for heard in got) == [b"0", b"1", b"2", b"3"]
    assert type(broker.core.services.by_name[b"echo"].chooser) is type(chooser_of(POLICIES.index(policy)))


def test_the_router_reads_the_key_and_the_worker_sees_it(broker_with: Callable[..., Broker]) -> None:
    broker = broker_with(echo=ServicePolicy(policy="key"))
    workers = [broker.worker(name, "echo", slots=20).starts() for name in ("bob", "eve", "joe")]
    ann = broker.client("ann")
    for _ in range(5):
        for key in ("red", "green", "blue", "white"):
            ann.asks("echo", key=key)
    where: dict[str, set[str]] = {}
    for worker in workers:
        for heard in worker.hears():
            where.setdefault(heard.fields["key"], set()).add(worker.who["identity"])
    assert [len(names) for names in where.values()] == [1] * 4
    assert len(set.union(*where.values())) > 1


def test_a_key_means_nothing_to_other_services(broker_with: Callable[..., Broker]) -> None:
    broker = broker_with(echo=ServicePolicy())
    workers = [broker.worker(name, "echo", slots=20).starts() for name in ("bob", "eve")]
    for _ in range(4):
        broker.client("ann").asks("echo", key="red")
    assert [len(worker.hears()) for worker in workers] == [2, 2]


def test_a_new_policy_holds_at_once_and_loses_no_slot(broker_with: Callable[..., Broker]) -> None:
    broker = broker_with(echo=ServicePolicy(policy="ewma"))
    bob = broker.worker("bob", "echo", slots=2).starts()
    ann = broker.client("ann")
    ann.asks("echo", b"1")
    ann.asks("echo", b"2")
    first, second = bob.hears()
    others: list[Policy] = ["key", "lru", "least_busy"]
    for policy in others:
        # The worker is full as it changes, and has a free slot the next time.
        broker.configure(echo=ServicePolicy(policy=policy))
        ann.asks("echo", b"3")
        assert bob.hears() == []
        bob.answers(first)
        first, second = second, bob.gets_task()
    bob.answers(first)
    bob.answers(second)
    broker.configure(echo=ServicePolicy(policy="ewma"))
    ann.asks("echo", b"4")
    assert bob.gets_task().body == b"4"


def test_a_worker_that_fails_at_once_does_not_draw_all_the_load(broker_with: Callable[..., Broker]) -> None:
    broker = broker_with(echo=ServicePolicy(policy="ewma"))
    good, bad = (broker.worker(name, "echo").starts() for name in ("good", "bad"))
    ann = broker.client("ann")
    given = Counter[str]()
    for _ in range(200):
        ann.asks("echo")
        for task in good.hears():
            broker.later(20)
            good.answers(task)
            given["OK"] += 1
        for task in bad.hears():
            bad.answers(task, outcome="ERROR")
            given["ERROR"] += 1
        broker.later(5)
        ann.hears()
    assert given.total() == 200
    assert 60 <= given["ERROR"] <= 140
