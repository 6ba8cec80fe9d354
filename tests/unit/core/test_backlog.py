"""Which waiting task is next, and whether one more may wait."""

from __future__ import annotations

from famulus.core.dispatch.backlog import Backlog, Queueable
from famulus.wire.inner import Terms


def task(priority: int = 4, body: bytes = b"", *, tasks_max: int = 10, bytes_max: int = 100) -> Queueable:
    terms = Terms(1000, priority, False, 1, tasks_max, bytes_max, 1000)
    return Queueable(body, terms)


def test_the_more_urgent_come_first_and_among_equals_who_came_first() -> None:
    backlog = Backlog()
    late, early, urgent, last = task(), task(), task(9), task(0)
    for each in (early, late, last, urgent):
        backlog.push(each)
    for each in (urgent, early, late, last):
        assert backlog.head() is each
        backlog.remove(each)
    assert backlog.tasks == 0


def test_who_lost_its_worker_is_the_first_of_its_priority_and_not_of_all() -> None:
    backlog = Backlog()
    waiting, urgent, back = task(), task(9), task()
    backlog.push(waiting)
    backlog.push(urgent)
    backlog.push(back, front=True)
    for each in (urgent, back, waiting):
        assert backlog.head() is each
        backlog.remove(each)
    assert backlog.tasks == 0


def test_who_leaves_from_the_middle_leaves_nothing_behind() -> None:
    backlog = Backlog()
    first, second, third = task(body=b"1"), task(body=b"22"), task(7, b"333")
    for each in (first, second, third):
        backlog.push(each)
    backlog.remove(second)
    assert (backlog.tasks, backlog.body_bytes) == (2, 4)
    backlog.remove(third)
    assert backlog.head() is first
    backlog.remove(first)
    assert (backlog.tasks, backlog.body_bytes, backlog._by_priority) == (0, 0, {})


def test_there_is_room_up_to_the_bound_of_tasks_and_of_bytes() -> None:
    backlog = Backlog()
    backlog.push(task(body=b"12345", tasks_max=2, bytes_max=8))
    assert backlog.has_room_for(task(body=b"678", tasks_max=2, bytes_max=8))
    assert not backlog.has_room_for(task(body=b"6789", tasks_max=2, bytes_max=8))
    backlog.push(task(tasks_max=2))
    assert not backlog.has_room_for(task(tasks_max=2))


def test_those_of_the_same_priority_and_of_higher_ones_are_ahead() -> None:
    backlog = Backlog()
    for priority in (4, 4, 9, 0):
        backlog.push(task(priority))
    assert [backlog.ahead_of(priority) for priority in (9, 5, 4, 0)] == [1, 1, 3, 4]


def test_with_one_priority_all_are_ahead() -> None:
    backlog = Backlog()
    for _ in range(3):
        backlog.push(task(4))
    assert [backlog.ahead_of(priority) for priority in (4, 5, 3)] == [3, 0, 3]
