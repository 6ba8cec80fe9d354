"""Runs functions in child processes, for CPU-bound work: one thread here for each child."""

from __future__ import annotations

import threading

from famulus.core.clock import NEVER_NS
from famulus.errors import NurseryDied
from famulus.net.waiting import Bell
from famulus.worker.calls import Answer, Call, log, same_answer, what_of
from famulus.worker.child import Child, TimeIsUp
from famulus.worker.nursery import Nursery
from famulus.worker.threads import JOIN_S, Threads
from famulus.worker.time_limit import KILLED, time_limit_reason


class Processes:
    next_due_ns = NEVER_NS

    def __init__(self, bell: Bell, nursery: Nursery, count: int) -> None:
        self.failure = ""
        self._bell = bell
        self._nursery = nursery
        # All threads are there from the start, so none are added later.
        self._threads = threads = Threads(bell, 0, gives_up=False)
        self.start, self.take = threads.start, threads.take
        self._lock = threading.Lock()
        self._closed = False
        self._children: list[Child] = []
        for place in range(count):
            self._children.append(Child(nursery))
            threads.add(lambda call, place=place: self._perform(place, call))  # type: ignore[misc]

    @property
    def pids(self) -> list[int]:
        return [child.pid for child in self._children]

    def close(self) -> bool:
        with self._lock:
            self._closed = True
            for child in self._children:
                child.close()
        return self._threads.end(JOIN_S)

    def _perform(self, place: int, call: Call) -> Answer:
        try:
            return self._children[place].perform(call)
        except EOFError:
            return same_answer(call, f"ProcessDied: {self._replace(place, call)}")
        except TimeIsUp:
            reason = time_limit_reason(call.service.time_limit_ns, KILLED)
            self._replace(place, call, reason)
            return same_answer(call, reason)

    def _replace(self, place: int, call: Call, why: str = "") -> str:
        """Replace the child that died, or has to, with a new one; returns how it died."""
        with self._lock:
            if self._closed:
                return "the worker was stopped"
            try:
                how = self._children[place].bury()
                self._children[place] = Child(self._nursery)
            except NurseryDied as error:
                self.failure = str(error)
                return "the worker's processes are gone"
        log.error("%s: the process of %s died (%s)", call.service.name, what_of(call), why or how)
        return f"the process that ran it died ({how})"
