"""What the I/O thread asks of those who run the functions."""

from __future__ import annotations

from typing import Protocol

from famulus.worker.calls import Answer, Call


class Runner(Protocol):
    """Gets calls in batches and gives answers in batches; rings the worker's bell when there are some."""

    #: Why it can run nothing any more; empty while all is well.
    failure: str

    def start(self, calls: list[Call]) -> None:
        """Queue these calls. Never blocks, never runs a function."""
        ...

    def take(self, now_ns: int) -> list[Answer]:
        """The answers since the last time."""
        ...

    @property
    def next_due_ns(self) -> int:
        """When `take` wants to be called again even if nothing rang."""
        ...

    def close(self) -> bool:
        """Give up what still runs, and end. False if a function did not come back, and may still do so later."""
        ...
