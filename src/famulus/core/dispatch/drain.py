"""Decides when a broker that drains has done its part. Reads no clock."""

from __future__ import annotations

from famulus.core.clock import NEVER_NS


class Drain:
    __slots__ = ("by_ns", "on")

    def __init__(self) -> None:
        self.on = False
        #: When tasks that are still open are ended.
        self.by_ns = NEVER_NS

    def begin(self, within_ns: int, now_ns: int) -> None:
        self.on = True
        self.by_ns = min(self.by_ns, now_ns + within_ns)

    def is_done(self, open_tasks: int, questions: int, now_ns: int) -> bool:
        """Every task has its outcome; once the time is up, undecided questions do not keep us."""
        return self.on and not open_tasks and (not questions or now_ns >= self.by_ns)
