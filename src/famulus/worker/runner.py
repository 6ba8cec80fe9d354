"""What the I/O thread needs from whatever runs the functions."""

from __future__ import annotations

from typing import Protocol

from famulus.core.session.header_cache import Given
from famulus.worker.calls import Answer, Call


class Runner(Protocol):
    """Gets calls in batches and returns answers in batches; rings the worker's bell when there are some."""

    #: Why it can no longer run anything; empty while all is well.
    failure: str

    def start(self, calls: list[Call]) -> None:
        """Queue these calls. Never blocks, never runs a function."""
        ...

    def take(self, now_ns: int) -> list[Answer]:
        """The answers since the last time."""
        ...

    def cancel(self, given: Given) -> bool:
        """Do what can be done to stop this task, which was started. True if it had not begun: no answer will come."""
        ...

    @property
    def next_due_ns(self) -> int:
        """When `take` has to be called again even if the bell has not rung."""
        ...

    def close(self) -> bool:
        """Give up what still runs, and end. False if a function did not return, and may still do so later."""
        ...
