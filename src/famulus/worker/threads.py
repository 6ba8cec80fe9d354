"""Runs functions in threads: few at first, more while tasks wait for slow functions, at most one for each slot.

Besides those there are threads that are lost: see `overruns`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import count
from queue import SimpleQueue
from threading import Lock, Thread
from time import monotonic, monotonic_ns

from famulus.core.session.header_cache import Given
from famulus.net.waiting import Bell
from famulus.worker.batch_call import perform_any
from famulus.worker.calls import Answer, BatchCall, Call, log, my_current, same_answer, what_of
from famulus.worker.growth import REMEMBERED, Growth
from famulus.worker.overruns import Overruns
from famulus.worker.time_limit import GOES_ON, time_limit_reason

JOIN_S = 1.0


class Threads:
    def __init__(self, bell: Bell, threads_max: int, gives_up: bool = True) -> None:
        """Without `gives_up`, the limits of services are somebody else's business."""
        self.failure = ""
        self._bell = bell
        self._queue: SimpleQueue[Call | None] = SimpleQueue()
        self._answers: deque[Answer] = deque()
        #: How long the last calls took.
        self._lasted_ns: deque[int] = deque(maxlen=REMEMBERED)
        self._threads: list[Thread] = []
        self._numbers = count()
        #: Those of them that take calls.
        self._serving = 0
        self._overruns = Overruns(threads_max) if gives_up else None
        self._growth = Growth(threads_max)
        self._finished = 0
        self._running = 0
        #: Held by whoever decides whether a call begins or is cancelled.
        self._claims = Lock()
        self._closed = False

    def __len__(self) -> int:
        return self._serving

    def start(self, calls: list[Call]) -> None:
        put = self._queue.put
        for call in calls:
            if call.service.is_limited and self._overruns is not None:
                self._overruns.watch(call, monotonic_ns())
            put(call)
        self._running += len(calls)
        for _ in range(self._growth.at_once(self._serving, self._running)):
            self.add(perform_any)

    def take(self, now_ns: int) -> list[Answer]:
        answers = self._answers
        taken = [answers.popleft() for _ in range(len(answers))]
        if self._overruns is not None and self._overruns.minds:
            taken = self._mind_limits(self._overruns, taken, now_ns)
        self._finished += len(taken)
        self._running -= len(taken)
        # If a task waits although there are more threads than tasks, a thread for it is just waking up.
        waiting = min(self._queue.qsize(), self._running - self._serving)
        for _ in range(self._growth.later(now_ns, self._serving, waiting, self._finished, self._lasted_ns)):
            self.add(perform_any)
        return taken

    def _mind_limits(self, overruns: Overruns, taken: list[Answer], now_ns: int) -> list[Answer]:
        """The answers that count, with those to calls that are given up now."""
        counting: list[Answer] = []
        for answer in taken:
            if overruns.returned(answer, now_ns):
                counting.append(answer)
            else:
                # Its thread is back, and another one has its place: one of them has to go.
                self._queue.put(None)
        for call in overruns.give_up(now_ns):
            reason = time_limit_reason(call.service.time_limit_ns, GOES_ON)
            log.error("%s: %s: %s", call.service.name, what_of(call), reason)
            counting.append(same_answer(call, reason))
            self._serving -= 1
            self.add(perform_any)
        return counting

    def cancel(self, given: Given) -> bool:
        """What has begun cannot be stopped; but its function may see that it is cancelled."""
        with self._claims:
            given.is_cancelled = True
            if given.has_begun:
                return False
        # A thread that comes to it drops it.
        if self._overruns is not None:
            self._overruns.forget(given)
        self._running -= 1
        return True

    @property
    def next_due_ns(self) -> int:
        due_ns = self._growth.next_due_ns
        return due_ns if self._overruns is None else min(due_ns, self._overruns.next_due_ns)

    def adopt(self) -> None:
        """A thread that is not ours already runs a call, and will deliver its answer with `bring`."""
        self._running += 1

    def bring(self, answer: Answer) -> None:
        self._answers.append(answer)
        self._bell.ring()

    def add(self, run: Callable[[Call], Answer]) -> None:
        """One more thread, which answers each call with what `run` returns. `run` must not raise."""
        # Daemons: a function that never returns must not keep the process from ending.
        name = f"famulus-worker-{next(self._numbers)}"
        thread = Thread(target=self._work, args=(run,), name=name, daemon=True)
        if self._overruns is not None and self._overruns.minds:
            # Some may have ended since their place was taken.
            self._threads = [each for each in self._threads if each.is_alive()]
        self._threads.append(thread)
        self._serving += 1
        thread.start()

    def close(self) -> bool:
        # If a thread is stuck in a function, there is no point in waiting; the others end by themselves.
        is_stuck = self._running or (self._overruns is not None and len(self._overruns))
        return self.end(0.0 if is_stuck else JOIN_S)

    def end(self, within_s: float) -> bool:
        self._closed = True
        for _ in self._threads:
            self._queue.put(None)
        until = monotonic() + within_s
        for thread in self._threads:
            thread.join(max(0.0, until - monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    def _claim(self, call: Call) -> bool:
        """Whether it begins now; False if it was cancelled before."""
        with self._claims:
            # Of a batch, only the first task is named here: its other tasks are to be done in any case.
            begins = isinstance(call, BatchCall) or not call.given.is_cancelled
            call.given.has_begun = True
        return begins

    def _work(self, run: Callable[[Call], Answer]) -> None:
        get = self._queue.get
        answer = self._answers.append
        lasted = self._lasted_ns.append
        ring = self._bell.ring
        current = my_current()
        while True:
            call = get()
            if call is None or self._closed:
                return
            if not self._claim(call):
                continue
            current.call = call
            began_ns = monotonic_ns()
            if call.service.is_limited and self._overruns is not None:
                self._overruns.begins(call, began_ns)
            result = run(call)
            lasted_ns = monotonic_ns() - began_ns
            current.call = None
            lasted(lasted_ns)
            call.service.note(lasted_ns)
            answer(result)
            ring()
