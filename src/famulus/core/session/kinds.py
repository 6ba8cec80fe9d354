"""Reads the headers of tasks for a worker. Knows no sockets.

Most tasks of a worker differ only in their message_id. So what a header says besides is remembered as its *kind*, under
all of its bytes but those of the message_id, and is read only once. What is remembered was read before, and a header
that is remembered says exactly what reading it would say.
"""

from __future__ import annotations

from typing import Final

import msgspec

from famulus.wire import headers, limits

KINDS_MAX: Final = 1024
ID_TEXT_MAX: Final = limits.MESSAGE_ID_CHARS_MAX + 2
_ID: Final = b'"message_id":'
#: Of these every text is its own JSON.
_PLAIN: Final = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_."


class Kind:
    """What a header says besides its message_id, and how the header of a plain OK ends."""

    __slots__ = ("answer_tail", "service", "timeout_ms")

    def __init__(self, service: str, timeout_ms: int | None) -> None:
        self.service = service
        self.timeout_ms = timeout_ms
        self.answer_tail = headers.answer_tail(service)


class Given:
    """A task that the broker gave us."""

    __slots__ = ("body", "header", "id_text", "kind", "place", "ticket")

    def __init__(self, ticket: bytes, kind: Kind, id_text: bytes, header: bytes, body: bytes, place: int = 0) -> None:
        self.ticket = ticket
        self.kind = kind
        #: The message_id as JSON.
        self.id_text = id_text
        self.header = header
        self.body = body
        #: The number of the session that got it, where a worker has several: tickets are unique at one broker only.
        self.place = place

    @property
    def message_id(self) -> str:
        return msgspec.json.decode(self.id_text, type=str)


class Kinds:
    def __init__(self) -> None:
        self._known: dict[bytes, Kind] = {}
        self._missed = b""

    def given(self, ticket: bytes, header: bytes, body: bytes, place: int) -> Given | None:
        """None if the header is not that of a task."""
        start = header.find(_ID) + len(_ID)
        end = header.find(b'"', start + 1) + 1
        if end > start:
            id_text = header[start:end]
            # Nothing that could be a part of a header stands where the id was cut out.
            rest = header[:start] + b"\0" + header[end:]
            known = self._known.get(rest)
            if known is not None and _is_plain(id_text):
                return Given(ticket, known, id_text, header, body, place)
        else:
            id_text, rest = b"", header
        request = headers.read_task_request(header)
        if request is None:
            return None
        kind = Kind(request.service, request.timeout_ms)
        if rest != self._missed:
            # What comes once may never come again: a time that is left is different for each task that had to wait.
            self._missed = rest
        elif _is_the_id(id_text, request.message_id, rest):
            self._remember(rest, kind)
        return Given(ticket, kind, headers.write_text(request.message_id), header, body, place)

    def _remember(self, rest: bytes, kind: Kind) -> None:
        if len(self._known) >= KINDS_MAX:
            self._known.clear()
        self._known[rest] = kind


def _is_plain(text: bytes) -> bool:
    """Whether this is a message_id in quotes that nobody needs to read to know that it is one."""
    return text.startswith(b'"') and len(text) <= ID_TEXT_MAX and not text[1:-1].translate(None, _PLAIN)


def _is_the_id(text: bytes, message_id: str, rest: bytes) -> bool:
    """Whether what was cut out of a header is its message_id: no other field has that name, however it is spelled."""
    return (
        bool(message_id) and text == b'"%b"' % message_id.encode() and rest.count(_ID[:-1]) == 1 and b"\\" not in rest
    )
