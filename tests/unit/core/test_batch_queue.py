"""The queue of a batch: who is in it, and when it starts."""

from __future__ import annotations

import pytest

from famulus.core.batch_queue import BatchQueue, batches_at_once, slots_for
from famulus.core.clock import NEVER_NS

WAIT_NS = 5


def queue(*tasks: str, size: int = 3, at_once: int = 1, now_ns: int = 0) -> BatchQueue[str]:
    made: BatchQueue[str] = BatchQueue(size, WAIT_NS, at_once)
    for task in tasks:
        made.add(now_ns, task, NEVER_NS)
    return made


def test_a_full_batch_starts_at_once() -> None:
    full = queue("a", "b", "c", "d")
    assert full.start(0) == (["a", "b", "c"], [])
    assert len(full) == 1


def test_one_that_is_not_full_starts_a_while_after_its_first_task() -> None:
    some = queue("a")
    some.add(3, "b", NEVER_NS)
    assert some.next_due_ns == WAIT_NS
    assert some.start(WAIT_NS - 1) == ([], [])
    assert some.start(WAIT_NS) == (["a", "b"], [])
    assert some.next_due_ns == NEVER_NS


def test_the_next_one_has_a_first_task_of_its_own() -> None:
    some = queue("a", at_once=2)
    assert some.start(WAIT_NS).batch == ["a"]
    some.add(WAIT_NS + 1, "b", NEVER_NS)
    assert some.next_due_ns == 2 * WAIT_NS + 1


def test_while_there_is_no_room_the_next_one_fills_and_then_it_does_not_wait() -> None:
    some = queue("a")
    assert some.start(WAIT_NS).batch == ["a"]
    for task in "bcde":
        some.add(WAIT_NS, task, NEVER_NS)
    assert some.start(100) == ([], [])
    assert some.next_due_ns == NEVER_NS, "there is nothing to wait for but its end"
    some.ended()
    assert some.start(100).batch == ["b", "c", "d"]
    some.ended()
    assert some.start(100).batch == ["e"]


def test_as_many_at_once_as_there_may_be() -> None:
    some = queue(*"abcdefghi", at_once=2)
    assert some.start(0).batch == ["a", "b", "c"]
    assert some.start(0).batch == ["d", "e", "f"]
    assert some.start(0) == ([], [])


def test_a_task_whose_time_is_up_leaves_its_place_to_another() -> None:
    some = queue("a")
    some.add(0, "late", 4)
    some.add(1, "b", NEVER_NS)
    some.add(1, "c", NEVER_NS)
    assert some.start(4) == (["a", "b", "c"], ["late"])


def test_those_that_are_left_wait_for_more_if_they_may() -> None:
    some = queue()
    some.add(0, "late", 4)
    some.add(2, "a", NEVER_NS)
    some.add(2, "b", NEVER_NS)
    assert some.start(4) == ([], ["late"]), "it was full with one that does not count"
    assert some.next_due_ns == 2 + WAIT_NS


def test_when_nobody_is_left_nothing_starts() -> None:
    some = queue()
    some.add(0, "late", 4)
    assert some.start(5) == ([], ["late"])
    assert some.start(5) == ([], [])
    some.add(6, "a", NEVER_NS)
    assert some.start(11).batch == ["a"], "and nothing is taken for running"


def test_when_no_more_will_come_it_starts_at_once() -> None:
    some = queue("a")
    some.hurry()
    assert some.next_due_ns == 0
    assert some.start(0).batch == ["a"]
    some.add(0, "b", NEVER_NS)
    assert some.start(0) == ([], []), "in its turn"


@pytest.mark.parametrize(
    ("slots", "size", "at_once"), [(64, 64, 1), (127, 64, 1), (128, 64, 1), (192, 64, 2), (5, 1, 4)]
)
def test_one_batch_fills_while_the_others_run(slots: int, size: int, at_once: int) -> None:
    assert batches_at_once(slots, size) == at_once
    assert batches_at_once(slots_for(size, at_once), size) == at_once
