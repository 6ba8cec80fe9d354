"""Which services are quick."""

from __future__ import annotations

import pytest

from famulus.worker.service import ENOUGH, MOST, QUICK_NS, Service


def called(*lasted_ns: int) -> Service:
    service = Service("test", bytes.upper)
    for each in lasted_ns:
        service.note(each)
    return service


def test_nothing_is_known_of_a_new_service() -> None:
    assert not called().is_quick


def test_enough_quick_calls_make_it_quick_and_not_one_less() -> None:
    assert not called(*[0] * (ENOUGH - 1)).is_quick
    assert called(*[0] * ENOUGH).is_quick


def test_one_call_that_waits_costs_it_its_good_name() -> None:
    assert not called(*[0] * 1000, (MOST - ENOUGH + 1) * QUICK_NS).is_quick


def test_one_that_was_only_a_little_late_does_not() -> None:
    assert called(*[0] * 1000, QUICK_NS).is_quick


@pytest.mark.parametrize("slow_ns", [QUICK_NS, 10**6, 10**12])
def test_a_slow_service_never_is(slow_ns: int) -> None:
    assert not called(*[slow_ns] * 1000).is_quick


def test_it_can_be_earned_again() -> None:
    assert called(10**12, *[0] * ENOUGH).is_quick
