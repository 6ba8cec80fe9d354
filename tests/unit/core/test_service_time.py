"""How long a service takes, by its last answers, and what follows for those who wait."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from famulus.core.clock import NS_PER_MS, NS_PER_S
from famulus.core.dispatch.service_time import SAMPLES_MAX, SAMPLES_MIN, ServiceTime

DURATIONS = st.integers(1, 100 * NS_PER_S)


def known(*durations_ms: float) -> ServiceTime:
    time = ServiceTime()
    for number, duration in enumerate(durations_ms):
        time.add(int(duration * NS_PER_MS), number * NS_PER_S)
    return time


def test_nothing_is_known_before_some_answers() -> None:
    time = known(*[1000] * (SAMPLES_MIN - 1))
    assert time.least_ns == time.usual_ns == time.needed_ns(NS_PER_S) == time.wait_ns(100, 1) == 0
    time.add(NS_PER_S, 0)
    assert time.least_ns == time.usual_ns == time.mean_ns == NS_PER_S


def test_what_counts_are_the_last_answers() -> None:
    time = known(*[1000] * SAMPLES_MAX, *[10] * SAMPLES_MAX)
    assert time.long_ns == time.mean_ns == 10 * NS_PER_MS


def test_a_millisecond_has_one_sample() -> None:
    time = ServiceTime()
    time.add(5, 1000 * NS_PER_MS)
    assert time.next_sample_ns == 1001 * NS_PER_MS


def test_a_rare_long_task_makes_nobody_wait_less() -> None:
    assert known(*[10] * 19, 60_000).long_ns == 10 * NS_PER_MS


def test_the_wait_is_that_of_those_ahead_shared_by_the_slots() -> None:
    time = known(*[100] * 10)
    assert time.wait_ns(ahead=40, slots=4) == NS_PER_S
    assert time.wait_ns(ahead=40, slots=8) == NS_PER_S // 2
    assert time.wait_ns(ahead=40, slots=0) == 0, "nobody is there: that is not a matter of speed"


def test_twice_a_long_task_is_left_for_it_where_there_is_so_much_time() -> None:
    time = known(*[1000] * 10)
    assert time.needed_ns(60 * NS_PER_S) == 2010 * NS_PER_MS
    assert time.needed_ns(2 * NS_PER_S) == 1500 * NS_PER_MS, "else half of what is to spare"
    assert time.needed_ns(NS_PER_S // 2) == NS_PER_S, "and never less than it usually takes"


@given(st.lists(DURATIONS, min_size=SAMPLES_MIN, max_size=40), DURATIONS)
def test_a_task_may_always_wait_a_little_unless_its_time_is_shorter_than_usual(
    durations: list[int], timeout: int
) -> None:
    time = ServiceTime()
    for duration in durations:
        time.add(duration, 0)
    assert time.least_ns <= time.usual_ns <= time.long_ns
    assert time.needed_ns(timeout) >= time.usual_ns
    if timeout > time.usual_ns * 10 // 9 + 1:
        assert time.needed_ns(timeout) < timeout


def test_now_and_then_a_hopeless_task_is_tried() -> None:
    time = known(*[1000] * 10)
    tried = [at for at in range(0, 100 * NS_PER_S, NS_PER_S // 10) if time.may_try(slots=4, now_ns=at)]
    assert tried == list(range(0, 100 * NS_PER_S, 8 * NS_PER_S)), "one in 32 of what four slots can do"
    quick = known(*[1] * 10)
    assert [quick.may_try(8, at) for at in (0, NS_PER_S - 1, NS_PER_S)] == [True, False, True]


def test_whoever_is_gone_is_forgotten() -> None:
    time = known(*[1000] * 10)
    time.forget()
    assert time.least_ns == time.needed_ns(NS_PER_S) == time.wait_ns(10, 1) == time.next_sample_ns == 0
