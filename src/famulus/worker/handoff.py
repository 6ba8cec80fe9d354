"""Which thread does the I/O of a worker, and how another one takes it over.

The I/O thread may call quick functions itself, which saves two thread switches per task. If one of them takes long
after all, a deputy takes over the I/O, so that no heartbeat and no other task waits for that function. The deputy
checks every two milliseconds, but only while functions are called this way; otherwise it sleeps.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock, Thread
from time import monotonic_ns, sleep
from typing import Final

from famulus.core.clock import NS_PER_MS

#: After this long in a function, a thread loses the I/O to the deputy.
PATIENCE_NS: Final = 2 * NS_PER_MS
LOOK_S: Final = 0.002
#: The deputy goes to sleep after this many checks without a call.
QUIET_LOOKS: Final = 50
JOIN_S: Final = 1.0


class Handoff:
    def __init__(self, lead: Callable[[int], None]) -> None:
        """`lead` does the work of the I/O thread, given its turn; it returns when the work is over, or the turn is."""
        self._lead = lead
        self._lock = Lock()
        self._turn = 0
        #: Since when the I/O thread has been in a function; 0 while it is not.
        self._since_ns = 0
        self._has_called = False
        self._threads: list[Thread] = []
        self._io_thread: Thread | None = None
        self._deputy: Thread | None = None
        self._deputy_sleeps = False
        # Held while the deputy should keep sleeping.
        self._alarm = Lock()
        self._alarm.acquire()
        self._closed = False

    def start(self) -> None:
        """The first turn, in a thread of its own: the caller's may be the main thread, which has to handle signals."""
        self._turn = 1
        self._io_thread = thread = self._new(lambda: self._lead(1), "famulus-worker")
        thread.start()

    def enter(self, now_ns: int) -> None:
        """The I/O thread is about to call a function."""
        self._since_ns = now_ns
        self._has_called = True
        if self._deputy is None:
            # In this order: when `start` returns it may have taken over already, and is a deputy no more.
            self._deputy = deputy = self._new(self._watch, "famulus-worker-deputy")
            deputy.start()
        elif self._deputy_sleeps:
            self._wake()

    def leave(self, turn: int) -> bool:
        """The thread of this turn is back. False if that took too long: another one does the I/O now, so hands off."""
        self._lock.acquire()
        still = self._turn == turn
        if still:
            self._since_ns = 0
        self._lock.release()
        return still

    def close(self) -> bool:
        """End the deputy, once the I/O thread is done. False if a thread is still in a function."""
        self._closed = True
        self._wake()
        for thread in (self._io_thread, self._deputy):
            if thread is not None:
                thread.join(JOIN_S)
        return not any(thread.is_alive() for thread in self._threads)

    # -- the deputy ---------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        quiet = 0
        while not self._closed:
            if quiet >= QUIET_LOOKS:
                self._doze()
                quiet = 0
            sleep(LOOK_S)
            quiet = 0 if self._has_called else quiet + 1
            self._has_called = False
            turn = self._take_over(monotonic_ns())
            if turn:
                self._lead(turn)
                return

    def _doze(self) -> None:
        # In this order: a call after the first line wakes us, and one before it is noticed by the second.
        self._deputy_sleeps = True
        if not (self._has_called or self._closed):
            self._alarm.acquire()
        self._deputy_sleeps = False

    def _wake(self) -> None:
        if self._alarm.locked():
            self._alarm.release()

    def _take_over(self, now_ns: int) -> int:
        """The turn that begins now; 0 if the I/O thread is not late."""
        with self._lock:
            if not self._since_ns or now_ns - self._since_ns < PATIENCE_NS or self._closed:
                return 0
            self._turn += 1
            self._since_ns = 0
            # The next function that is called this way gets a new deputy.
            self._io_thread, self._deputy = self._deputy, None
            return self._turn

    def _new(self, work: Callable[[], None], name: str) -> Thread:
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        # A daemon: a function that never returns must not keep the process from ending.
        thread = Thread(target=work, name=name, daemon=True)
        self._threads.append(thread)
        return thread
