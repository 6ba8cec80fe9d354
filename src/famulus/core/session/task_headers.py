"""The headers of a client's tasks, and what their client has asked for so far."""

from __future__ import annotations

from typing import Final

from famulus.core.session.task_kind import TaskKind
from famulus.wire import headers, limits

# Final, so that compiled code has it at hand instead of looking it up each time.
_write_text: Final = headers.write_text

#: A client of more services than this asks for brokers without naming services: one that serves most of them will do.
SERVICES_NAMED_MAX: Final = 8


class TaskHeaders:
    def __init__(self, token: str) -> None:
        self.token = token
        #: After an id: without one there is nothing to ask for again, so only tasks with an id need the token.
        self._after_id = b',"client_token":%b' % headers.write_text(token) if token else b""
        #: What was asked for so far: brokers that serve none of it are useless.
        self._services: dict[str, None] = {}
        self._last: TaskKind | None = None

    @property
    def services(self) -> list[str]:
        """The services of all tasks so far; none if there are too many to name."""
        return list(self._services) if len(self._services) <= SERVICES_NAMED_MAX else []

    def of(self, kind: TaskKind, message_id: str) -> bytes:
        if kind is not self._last:
            self._last = kind
            self._note(kind.service)
        if not message_id:
            return kind.header
        return b'%b,"message_id":%b%b%b' % (kind.begin, _write_text(message_id), self._after_id, kind.end)

    def _note(self, service: str) -> None:
        if service not in self._services and len(self._services) <= SERVICES_NAMED_MAX and _is_name(service):
            self._services[service] = None


def _is_name(service: str) -> bool:
    """Whether this is a name that no broker will object to, wherever it is used."""
    return 0 < len(service) <= limits.NAME_CHARS_MAX and service.isprintable()
