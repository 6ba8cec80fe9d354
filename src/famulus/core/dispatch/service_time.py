"""How long workers take for a task of one service, from its last answers. Knows nothing about clocks or tasks.

This is what tells a task that can still be done in time from one that cannot. One answer per millisecond is enough, so
the busier a service is, the less each of its tasks pays for it.
"""

from __future__ import annotations

from typing import Final

from famulus.core.clock import NS_PER_MS, NS_PER_S

#: How many of the last answers count, and how many it takes to know anything.
SAMPLES_MAX: Final = 32
SAMPLES_MIN: Final = 8
#: Once there are enough, they are sorted only once in this many answers: that is the expensive part.
RANKED_EVERY: Final = 4
#: The least time between two samples.
SAMPLE_EVERY_NS: Final = NS_PER_MS
#: On top of twice the time that a long task takes: a busy machine is late by this much now and then.
SLACK_NS: Final = 10 * NS_PER_MS
#: Tasks that seem hopeless are tried at most this often, and take at most this fraction (1/32) of the slots' time.
TRY_EVERY_NS: Final = NS_PER_S
TRY_SHARE: Final = 32


class ServiceTime:
    __slots__ = (
        "_added",
        "_samples",
        "_shows_all",
        "_tries_at_ns",
        "due_ns",
        "least_ns",
        "long_ns",
        "mean_ns",
        "next_sample_ns",
        "usual_ns",
    )

    def __init__(self) -> None:
        self._samples: list[int] = []
        self._added = 0
        #: When an answer is worth sampling again.
        self.due_ns = 0
        #: When somebody wants to see one again: then, or always.
        self.next_sample_ns = 0
        self._shows_all = False
        #: Of the last answers: the shortest, the median, the 90th percentile, the mean. All are 0 as long as too little
        #: is known.
        self.least_ns = 0
        self.usual_ns = 0
        self.long_ns = 0
        self.mean_ns = 0
        self._tries_at_ns = 0

    def add(self, duration_ns: int, now_ns: int) -> None:
        self.due_ns = now_ns + SAMPLE_EVERY_NS
        self.next_sample_ns = 0 if self._shows_all else self.due_ns
        samples = self._samples
        samples.append(duration_ns)
        if len(samples) > SAMPLES_MAX:
            del samples[0]
        count = len(samples)
        self._added += 1
        if count >= SAMPLES_MIN and (count < SAMPLES_MAX or self._added % RANKED_EVERY == 0):
            ranked = sorted(samples)
            self.least_ns = ranked[0]
            self.usual_ns = ranked[count // 2]
            self.long_ns = ranked[count * 9 // 10]
            self.mean_ns = sum(samples) // count

    def show_all(self, shows_all: bool) -> None:
        """Whether somebody wants to see every answer; no more of them are samples for that."""
        self._shows_all = shows_all
        self.next_sample_ns = 0 if shows_all else self.due_ns

    def forget(self) -> None:
        """The workers that these times came from are gone."""
        self._samples.clear()
        self.due_ns = self.next_sample_ns = self._tries_at_ns = 0
        self.least_ns = self.usual_ns = self.long_ns = self.mean_ns = 0

    def wait_ns(self, ahead: int, slots: int) -> int:
        """How long it takes to get through this many tasks; 0 if unknown.

        From the slots, not from the rate of recent answers: so a worker that comes or goes counts at once.
        """
        return ahead * self.mean_ns // slots if slots else 0

    def needed_ns(self, timeout_ns: int) -> int:
        """How much of its time-out a task must have left when it gets a slot; the rest it may spend waiting.

        Twice what a long task takes, if it has that much. If not, half of its spare time is for waiting; at least a
        fifth of its time-out counts as spare, or no task could wait for a service as slow as that.
        """
        if not self.mean_ns:
            return 0
        half_ns = (timeout_ns + min(self.long_ns, timeout_ns * 4 // 5)) // 2
        return max(self.usual_ns, min(2 * self.long_ns + SLACK_NS, half_ns))

    def may_try(self, slots: int, now_ns: int) -> bool:
        """Whether to try a task that has less time than any of the last ones took.

        If none were ever tried, tasks that are shorter than the rest would be refused for ever, and so would all tasks
        once the service has become faster.
        """
        if now_ns < self._tries_at_ns:
            return False
        self._tries_at_ns = now_ns + max(TRY_EVERY_NS, self.wait_ns(TRY_SHARE, slots))
        return True
