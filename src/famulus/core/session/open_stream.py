"""A worker's side of one stream: which number its next part has, and how many parts its client wants by now."""

from __future__ import annotations

from famulus.core.session.header_cache import Given
from famulus.wire import headers, limits, stream

Frames = list[bytes]


class OpenStream:
    __slots__ = ("given", "has_begun", "last", "sent")

    def __init__(self, given: Given) -> None:
        self.given = given
        #: Its function gives parts, and will be called. Others give one answer, whatever credit a client gave.
        self.has_begun = False
        self.sent = 0
        #: The number of the last part that is wanted.
        self.last = given.parsed.credit

    def grant(self, last: int) -> bool:
        """Whether the client wants more than before. What it cannot have meant is ignored."""
        if not self.last < last <= self.sent + limits.CREDIT_MAX:
            return False
        self.last = last
        return True

    def number(self, bodies: list[bytes]) -> list[Frames]:
        """The messages of the next parts."""
        assert self.sent + len(bodies) <= self.last
        ticket, number = self.given.ticket, self.sent
        messages: list[Frames] = []
        for body in bodies:
            number += 1
            messages.append([stream.write_place(ticket, number), headers.PART, body])
        self.sent = number
        return messages
