"""Reads the headers of tasks for a worker. Uses no socket.

Most tasks of a worker differ only in their message_id. So what else a header says is remembered under all of its bytes
except the message_id, and is read only once. What is remembered was read before, so a remembered header says exactly
what reading it would give.
"""

from __future__ import annotations

from typing import Final

import msgspec

from famulus.wire import headers, limits
from famulus.wire.id_in_header import Cutter, is_the_id

CACHED_MAX: Final = 1024
SKIPPED: Final = 15
_read_task_request: Final = headers.read_task_request
_write_text: Final = headers.write_text


class ParsedHeader:
    """What a header says apart from its message_id, and how the header of a plain OK ends."""

    __slots__ = ("answer_tail", "credit", "service", "timeout_ms")

    def __init__(self, service: str, timeout_ms: int | None, answer_tail: bytes = b"", credit: int = 0) -> None:
        self.service = service
        self.timeout_ms = timeout_ms
        self.answer_tail = answer_tail
        #: Its client wants a stream, and so many parts of it for now.
        self.credit = credit


class Given:
    """A task that the broker gave us."""

    __slots__ = ("body", "has_begun", "header", "id_text", "is_cancelled", "parsed", "place", "ticket")

    def __init__(
        self, ticket: bytes, parsed: ParsedHeader, id_text: bytes, header: bytes, body: bytes, place: int = 0
    ) -> None:
        self.ticket = ticket
        self.parsed = parsed
        #: The message_id as JSON.
        self.id_text = id_text
        self.header = header
        self.body = body
        #: The number of the session that got it, if a worker has several: tickets are unique at one broker only.
        self.place = place
        #: Its function was called, or will be in any case; and nobody wants it any more.
        self.has_begun = False
        self.is_cancelled = False

    @property
    def message_id(self) -> str:
        return msgspec.json.decode(self.id_text, type=str)


class HeaderCache:
    def __init__(self) -> None:
        self._known: dict[bytes, ParsedHeader] = {}
        self._cutter = Cutter()
        self._missed = b""
        #: This many headers are read without looking in the cache.
        self._skips = 0
        self._answer_tails: dict[str, bytes] = {}

    def given(self, ticket: bytes, header: bytes, body: bytes, place: int) -> Given | None:
        """None if the header is not that of a task."""
        if self._skips:
            self._skips -= 1
            return self._read(ticket, header, body, place)
        id_text, rest = self._cutter.cut(header)
        known = self._known.get(rest)
        if known is not None:
            return Given(ticket, known, id_text, header, body, place)
        given = self._read(ticket, header, body, place)
        if given is not None:
            self._learn(rest, id_text, given)
        return given

    def _read(self, ticket: bytes, header: bytes, body: bytes, place: int) -> Given | None:
        request = _read_task_request(header)
        if request is None:
            return None
        tail = self._answer_tail(request.service)
        parsed = ParsedHeader(request.service, request.timeout_ms, tail, request.credit)
        return Given(ticket, parsed, _write_text(request.message_id), header, body, place)

    def _answer_tail(self, service: str) -> bytes:
        # One per service, which are few: the broker only sends what we offered, and anything else cannot grow this for
        # long.
        tail = self._answer_tails.get(service)
        if tail is None:
            if len(self._answer_tails) >= limits.SERVICES_PER_WORKER_MAX:
                self._answer_tails.clear()
            tail = self._answer_tails[service] = headers.answer_tail(service)
        return tail

    def _learn(self, rest: bytes, id_text: bytes, given: Given) -> None:
        if rest != self._missed:
            # What came once may never come again: the time left is different for each task that had to wait. While such
            # tasks come, looking in the cache costs more than it saves.
            self._missed = rest
            self._skips = SKIPPED
        elif is_the_id(id_text, given.id_text, rest):
            if len(self._known) >= CACHED_MAX:
                self._known.clear()
            self._known[rest] = given.parsed
