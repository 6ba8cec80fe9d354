"""Whatever comes whenever: each task is in one batch, in order, or expired; no batch is late, too large or too many."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.longer import examples

from famulus.core.batch_queue import BatchQueue
from famulus.core.clock import NEVER_NS

THOROUGH = settings(max_examples=examples(80), stateful_step_count=60, deadline=None)


class QueueMachine(RuleBasedStateMachine):
    """Against a list of what waits, with when each came and how long it has."""

    def __init__(self) -> None:
        super().__init__()
        self.now_ns = 0
        self.size, self.wait_ns, self.at_once = 3, 10, 2
        self.queue: BatchQueue[int] = BatchQueue(self.size, self.wait_ns, self.at_once)
        self.count = 0
        self.waiting: dict[int, tuple[int, int]] = {}
        self.running = 0
        self.hurries = False

    @rule(left_ns=st.none() | st.integers(0, 30), count=st.integers(1, 5))
    def tasks_come(self, left_ns: int | None, count: int) -> None:
        for _ in range(count):
            self.count += 1
            deadline_ns = NEVER_NS if left_ns is None else self.now_ns + left_ns
            self.waiting[self.count] = self.now_ns, deadline_ns
            self.queue.add(self.now_ns, self.count, deadline_ns)
        self.start_all()

    @rule(ns=st.integers(0, 30))
    def time_passes(self, ns: int) -> None:
        until_ns = self.now_ns + ns
        while self.queue.next_due_ns <= until_ns:
            self.now_ns = max(self.now_ns, self.queue.next_due_ns)
            self.start_all()
        self.now_ns = until_ns

    @precondition(lambda self: self.running)
    @rule()
    def a_batch_ends(self) -> None:
        self.running -= 1
        self.queue.ended()
        self.start_all()

    @rule()
    def no_more_will_come(self) -> None:
        self.hurries = True
        self.queue.hurry()
        self.start_all()

    def start_all(self) -> None:
        while any(start := self.queue.start(self.now_ns)):
            for task in start.expired:
                _, deadline_ns = self.waiting.pop(task)
                assert deadline_ns <= self.now_ns
            if start.batch:
                self.check(start.batch)

    def check(self, batch: list[int]) -> None:
        assert batch == list(self.waiting)[: self.size], "those who came first"
        first_ns = self.waiting[batch[0]][0]
        assert len(batch) == self.size or self.hurries or first_ns + self.wait_ns <= self.now_ns
        for task in batch:
            assert self.waiting.pop(task)[1] > self.now_ns
        self.running += 1
        assert self.running <= self.at_once

    @invariant()
    def nobody_waits_for_nothing(self) -> None:
        assert len(self.queue) == len(self.waiting)
        alive = [since_ns for since_ns, deadline_ns in self.waiting.values() if deadline_ns > self.now_ns]
        if alive and self.running < self.at_once:
            assert len(alive) < self.size
            assert not self.hurries
            assert self.now_ns <= alive[0] + self.wait_ns


TestBatchQueue = QueueMachine.TestCase
TestBatchQueue.settings = THOROUGH


@given(st.integers(1, 10), st.integers(0, 100))
def test_tasks_that_wait_together_take_as_few_batches_as_can_be(size: int, count: int) -> None:
    queue: BatchQueue[int] = BatchQueue(size, 0, count or 1)
    for task in range(count):
        queue.add(0, task, NEVER_NS)
    sizes = []
    while batch := queue.start(0).batch:
        sizes.append(len(batch))
    assert sum(sizes) == count
    assert len(sizes) == -(-count // size)
