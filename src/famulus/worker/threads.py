"""Runs functions in threads: few at first, more while tasks wait for slow functions, at most one for each slot."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from time import monotonic, monotonic_ns

from famulus.net.waiting import Bell
from famulus.worker.calls import Answer, Call, perform
from famulus.worker.growth import REMEMBERED, Growth

JOIN_S = 1.0


class Threads:
    def __init__(self, bell: Bell, threads_max: int) -> None:
        self.failure = ""
        self._bell = bell
        self._queue: SimpleQueue[Call | None] = SimpleQueue()
        self._answers: deque[Answer] = deque()
        #: How long the last calls took.
        self._lasted_ns: deque[int] = deque(maxlen=REMEMBERED)
        self._threads: list[Thread] = []
        self._growth = Growth(threads_max)
        self._finished = 0
        self._running = 0
        self._closed = False

    def __len__(self) -> int:
        return len(self._threads)

    def start(self, calls: list[Call]) -> None:
        put = self._queue.put
        for call in calls:
            put(call)
        self._running += len(calls)
        for _ in range(self._growth.at_once(len(self._threads), self._running)):
            self.add(perform)

    def take(self, now_ns: int) -> list[Answer]:
        answers = self._answers
        taken = [answers.popleft() for _ in range(len(answers))]
        self._finished += len(taken)
        self._running -= len(taken)
        # If a task waits although there are more threads than tasks, a thread for it is just waking up.
        waiting = min(self._queue.qsize(), self._running - len(self._threads))
        for _ in range(self._growth.later(now_ns, len(self._threads), waiting, self._finished, self._lasted_ns)):
            self.add(perform)
        return taken

    @property
    def next_due_ns(self) -> int:
        return self._growth.next_due_ns

    def adopt(self) -> None:
        """A thread that is not ours already runs a call, and will deliver its answer with `bring`."""
        self._running += 1

    def bring(self, answer: Answer) -> None:
        self._answers.append(answer)
        self._bell.ring()

    def add(self, run: Callable[[Call], Answer]) -> None:
        """One more thread, which answers each call with what `run` returns. `run` must not raise."""
        # Daemons: a function that never returns must not keep the process from ending.
        thread = Thread(target=self._work, args=(run,), name=f"famulus-worker-{len(self._threads)}", daemon=True)
        self._threads.append(thread)
        thread.start()

    def close(self) -> bool:
        # If a thread is stuck in a function, there is no point in waiting; the others end by themselves.
        return self.end(0.0 if self._running else JOIN_S)

    def end(self, within_s: float) -> bool:
        self._closed = True
        for _ in self._threads:
            self._queue.put(None)
        until = monotonic() + within_s
        for thread in self._threads:
            thread.join(max(0.0, until - monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    def _work(self, run: Callable[[Call], Answer]) -> None:
        get = self._queue.get
        answer = self._answers.append
        lasted = self._lasted_ns.append
        ring = self._bell.ring
        while True:
            call = get()
            if call is None or self._closed:
                return
            began_ns = monotonic_ns()
            result = run(call)
            lasted_ns = monotonic_ns() - began_ns
            lasted(lasted_ns)
            call.service.note(lasted_ns)
            answer(result)
            ring()
