"""The only way in which time enters the dispatcher."""

from __future__ import annotations


class Now:
    """When the current batch arrived. Everything that follows from it happens at that time."""

    __slots__ = ("moment", "ns")

    def __init__(self) -> None:
        self.ns = 0
        #: The same as an object, as the journal wants it: making one for each task would cost more than its row.
        self.moment: object = 0

    def set(self, now_ns: int) -> None:
        self.ns = now_ns
        self.moment = now_ns
