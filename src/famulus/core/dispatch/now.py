"""The one way in which time comes into the dispatcher."""

from __future__ import annotations


class Now:
    """When the batch at hand came. All that follows from it happens then."""

    __slots__ = ("moment", "ns")

    def __init__(self) -> None:
        self.ns = 0
        #: The same as an object, which the journal wants: to make one for each task would cost more than its row.
        self.moment: object = 0

    def set(self, now_ns: int) -> None:
        self.ns = now_ns
        self.moment = now_ns
