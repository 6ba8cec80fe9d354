"""Which calls in threads have run for longer than their service allows, and are given up. Stops nothing.

A thread cannot be stopped. Its task is answered all the same, and another thread takes its place; the function goes on
in vain, and what it returns is dropped. There are never more of those than the worker has slots. Beyond that a task is
answered when a function returns, and its slot stays busy until then.

Used by the thread that does the I/O, except for `begins`.
"""

from __future__ import annotations

from famulus.core.clock import NEVER_NS
from famulus.core.session.header_cache import Given
from famulus.worker.calls import Answer, Call


class Overruns:
    def __init__(self, most: int) -> None:
        self._most = most
        #: By their tasks: calls of services with a limit that have no answer yet, and when they began.
        self._calls: dict[Given, Call] = {}
        self._began_ns: dict[Given, int] = {}
        #: Those that were given up, and whose functions have not returned yet.
        self._given_up: set[Given] = set()
        self.next_due_ns = NEVER_NS

    def __len__(self) -> int:
        """How many threads are lost to functions that go on in vain."""
        return len(self._given_up)

    @property
    def minds(self) -> bool:
        """Whether there is anything to look after."""
        return bool(self._calls or self._given_up)

    def watch(self, call: Call, now_ns: int) -> None:
        """It will be called, at once or later: the time that it waits for a thread does not count."""
        self._calls[call.given] = call
        self.next_due_ns = min(self.next_due_ns, now_ns + call.service.time_limit_ns)

    def forget(self, given: Given) -> None:
        """It will not be called after all."""
        self._calls.pop(given, None)

    def begins(self, call: Call, now_ns: int) -> None:
        """A thread calls it now. Called by that thread."""
        self._began_ns[call.given] = now_ns

    def returned(self, answer: Answer, now_ns: int) -> bool:
        """A function has returned. False if it had been given up, so that its answer counts no more."""
        given = answer.given
        self._began_ns.pop(given, None)
        if given not in self._given_up:
            self._calls.pop(given, None)
            return True
        self._given_up.remove(given)
        self.next_due_ns = min(self.next_due_ns, now_ns)  # there is room for another one now
        return False

    def give_up(self, now_ns: int) -> list[Call]:
        """Those whose time is up."""
        if now_ns < self.next_due_ns:
            return []
        self.next_due_ns = NEVER_NS
        late: list[Call] = []
        for given, call in self._calls.items():
            due_ns = self._began_ns.get(given, now_ns) + call.service.time_limit_ns
            if due_ns > now_ns:
                self.next_due_ns = min(self.next_due_ns, due_ns)
            elif len(self._given_up) + len(late) < self._most:
                late.append(call)
        for call in late:
            del self._calls[call.given]
            self._given_up.add(call.given)
        return late
