"""The batches of a worker: gathers the tasks of each service that has some, and makes calls of them.

Belongs to the thread that does the I/O. Decides nothing itself: see `core.batch_queue`.
"""

from __future__ import annotations

from famulus.core.batch_queue import BatchQueue, batches_at_once
from famulus.core.clock import NEVER_NS
from famulus.core.session.header_cache import Given
from famulus.worker.calls import EXPIRED, Answer, BatchAnswer, BatchCall, Call
from famulus.worker.services import Services


class Batches:
    def __init__(self, services: Services, slots: int, processes: int) -> None:
        self._queues: dict[str, BatchQueue[Call]] = {}
        for name, service in services.items():
            if service.batching is None:
                continue
            at_once = batches_at_once(slots, service.batching.size)
            if processes and not service.asynchronous:
                # One more would wait for a process, and not fill meanwhile.
                at_once = min(at_once, processes)
            self._queues[name] = BatchQueue(service.batching.size, service.batching.wait_ns, at_once)

    def add(self, call: Call, now_ns: int) -> None:
        self._queues[call.service.name].add(now_ns, call, call.deadline_ns)

    def start(self, now_ns: int) -> tuple[list[BatchCall], list[Answer]]:
        """The batches that start now, and the answers to tasks whose time was up before their turn."""
        batches: list[BatchCall] = []
        expired: list[Answer] = []
        for queue in self._queues.values():
            while any(start := queue.start(now_ns)):
                expired += [Answer(call.given, EXPIRED, b"") for call in start.expired]
                if start.batch:
                    batches.append(BatchCall(start.batch))
        return batches, expired

    def ended(self, answer: BatchAnswer) -> None:
        self._queues[answer.given.parsed.service].ended()

    def remove(self, given: Given) -> bool:
        """Whether it still waited for a batch."""
        return self._queues[given.parsed.service].remove(lambda call: call.given is given)

    def hurry(self) -> None:
        """No more tasks will come."""
        for queue in self._queues.values():
            queue.hurry()

    @property
    def next_due_ns(self) -> int:
        return min((each.next_due_ns for each in self._queues.values()), default=NEVER_NS)
