"""Runs functions in child processes, for CPU-bound work: one thread here for each child."""

from __future__ import annotations

import logging
import threading
from time import monotonic_ns

from famulus.core.clock import NEVER_NS, NS_PER_S
from famulus.core.session.header_cache import Given
from famulus.errors import NurseryDied
from famulus.net.waiting import Bell
from famulus.worker.calls import STOPPED, Answer, BatchCall, Call, log, same_answer, what_of
from famulus.worker.child import Child, TimeIsUp
from famulus.worker.nursery import Nursery
from famulus.worker.outgoing_parts import StreamCall
from famulus.worker.streams import CLOSE_S
from famulus.worker.threads import JOIN_S, Threads
from famulus.worker.time_limit import KILLED, time_limit_reason


class Processes:
    def __init__(self, bell: Bell, nursery: Nursery, count: int) -> None:
        self.failure = ""
        self._bell = bell
        self._nursery = nursery
        # All threads are there from the start, so none are added later.
        self._threads = threads = Threads(bell, 0, gives_up=False)
        self.start = threads.start
        self._lock = threading.Lock()
        self._closed = False
        self._children: list[Child] = []
        #: What each child works on; and those that must be replaced, since somebody has cancelled that.
        self._running: dict[int, Call] = {}
        self._interrupted: set[int] = set()
        #: Streams that were cancelled, and until when they may close by themselves.
        self._closing: dict[int, tuple[Call, int]] = {}
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

    def cancel(self, given: Given) -> bool:
        """The process of one that has begun is killed, unless it works on a batch: others' tasks are in it, too.

        A stream has a moment: its function hears of it when it has used up its credit, and can close what it has open.
        """
        if self._threads.cancel(given):
            return True
        with self._lock:
            for place, call in self._running.items():
                if call.given is not given or isinstance(call, BatchCall):
                    continue
                if isinstance(call, StreamCall):
                    self._closing[place] = (call, monotonic_ns() + int(CLOSE_S * NS_PER_S))
                else:
                    self._interrupt(place)
        return False

    def take(self, now_ns: int) -> list[Answer]:
        if self._closing:
            with self._lock:
                self._interrupt_late(now_ns)
        return self._threads.take(now_ns)

    @property
    def next_due_ns(self) -> int:
        with self._lock:
            return min((until_ns for _, until_ns in self._closing.values()), default=NEVER_NS)

    def _interrupt_late(self, now_ns: int) -> None:
        """Those that have not even heard of it in their moment."""
        for place, (call, until_ns) in list(self._closing.items()):
            if until_ns <= now_ns:
                del self._closing[place]
                if self._running.get(place) is call and not self._children[place].is_closing:
                    self._interrupt(place)

    def _interrupt(self, place: int) -> None:
        self._interrupted.add(place)
        self._children[place].interrupt()

    def _perform(self, place: int, call: Call) -> Answer:
        with self._lock:
            self._running[place] = call
            if call.given.is_cancelled and not isinstance(call, BatchCall):
                self._interrupt(place)
        answer = self._answer(place, call)
        with self._lock:
            del self._running[place]
            self._closing.pop(place, None)
            is_interrupted = place in self._interrupted
            self._interrupted.discard(place)
        if is_interrupted:
            self._replace(place, call, STOPPED, logging.INFO)
        return answer

    def _answer(self, place: int, call: Call) -> Answer:
        try:
            return self._children[place].perform(call)
        except EOFError:
            if place in self._interrupted:
                return Answer(call.given, STOPPED, b"")
            return same_answer(call, f"ProcessDied: {self._replace(place, call)}")
        except TimeIsUp:
            reason = time_limit_reason(call.service.time_limit_ns, KILLED)
            self._replace(place, call, reason)
            return same_answer(call, reason)

    def _replace(self, place: int, call: Call, why: str = "", level: int = logging.ERROR) -> str:
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
        log.log(level, "%s: the process of %s died (%s)", call.service.name, what_of(call), why or how)
        return f"the process that ran it died ({how})"
