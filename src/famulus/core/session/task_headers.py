"""The headers of a client's tasks. Most tasks differ only in their bodies: a header with the same bytes is cheap for
the client, and for the broker too.
"""

from __future__ import annotations

from typing import Final

from famulus.wire import headers, limits

REMEMBERED_MAX: Final = 1024
#: A client of more services than this asks for brokers without naming services: one that serves most of them will do.
SERVICES_NAMED_MAX: Final = 8


class TaskHeaders:
    def __init__(self, token: str) -> None:
        self._token = token or None
        self._known: dict[tuple[str, int, int], bytes] = {}
        self._last: tuple[str, int, int, bytes] = ("", 0, 0, b"")
        #: The end of those with an id: without one there is nothing to ask for again, so only these need the token.
        self._named_end = b',"client_token":%b}' % headers.write_text(token) if token else b"}"
        #: What was asked for so far: brokers that serve none of it are useless.
        self._services: dict[str, None] = {}

    @property
    def token(self) -> str:
        return self._token or ""

    @property
    def services(self) -> list[str]:
        """The services of all tasks so far; none if there are too many to name."""
        return list(self._services) if len(self._services) <= SERVICES_NAMED_MAX else []

    def of(self, service: str, timeout_ms: int, priority: int, message_id: str, more: bytes = b"") -> bytes:
        """`more` are further fields, as JSON after a comma."""
        if more:
            return b"%b%b}" % (self.of(service, timeout_ms, priority, message_id)[:-1], more)
        if message_id:
            begin = self.of(service, timeout_ms, priority, "")[:-1]
            return b'%b,"message_id":%b%b' % (begin, headers.write_text(message_id), self._named_end)
        last = self._last
        if service == last[0] and timeout_ms == last[1] and priority == last[2]:
            return last[3]
        if service not in self._services and len(self._services) <= SERVICES_NAMED_MAX and _is_name(service):
            self._services[service] = None
        key = (service, timeout_ms, priority)
        header = self._known.get(key)
        if header is None:
            header = _write(service, timeout_ms, priority)
            if len(self._known) >= REMEMBERED_MAX:
                self._known.clear()
            self._known[key] = header
        self._last = (service, timeout_ms, priority, header)
        return header


def _write(service: str, timeout_ms: int, priority: int) -> bytes:
    return headers.write(
        "TASK",
        "REQUEST",
        service=service,
        timeout_ms=timeout_ms,
        priority=priority if priority != limits.PRIORITY_DEFAULT else None,
    )


def _is_name(service: str) -> bool:
    """Whether this is a name that no broker will object to, wherever it is used."""
    return 0 < len(service) <= limits.NAME_CHARS_MAX and service.isprintable()
