"""Runs functions in child processes, for CPU-bound work: one thread here for each child."""

from __future__ import annotations

import threading

from famulus.core.clock import NEVER_NS
from famulus.errors import NurseryDied
from famulus.net.waiting import Bell
from famulus.worker.calls import Answer, Call, log
from famulus.worker.child import Child
from famulus.worker.nursery import Nursery
from famulus.worker.threads import JOIN_S, Threads


class Processes:
    next_due_ns = NEVER_NS

    def __init__(self, bell: Bell, nursery: Nursery, count: int) -> None:
        self.failure = ""
        self._bell = bell
        self._nursery = nursery
        # All threads are there from the start, so none are added later.
        self._threads = threads = Threads(bell, 0)
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
            return Answer(call.given, f"ProcessDied: {self._replace(place, call)}", b"")

    def _replace(self, place: int, call: Call) -> str:
        """Replace the child that died with a new one; returns how it died."""
        with self._lock:
            if self._closed:
                return "the worker was stopped"
            try:
                how = self._children[place].bury()
                self._children[place] = Child(self._nursery)
            except NurseryDied as error:
                self.failure = str(error)
                return "the worker's processes are gone"
        log.error("%s: the process of task %s died (%s)", call.service.name, call.given.message_id, how)
        return f"the process that ran it died ({how})"
