"""Where a host is: its addresses, found without making anybody wait. Knows no protocol.

A numeric address is known at once, and so is a path. A name is looked up by a thread: a name server may take
many seconds, and whoever asks has other things to do. All who want the same name at the same time share one thread.
"""

from __future__ import annotations

import os
import socket
import threading
from contextlib import suppress
from typing import Final

#: Family, and what `connect` takes.
Where = tuple[int, tuple[str, int] | tuple[str, int, int, int] | str]

_EVENT: Final = os.EFD_NONBLOCK | os.EFD_CLOEXEC

#: Who waits for what is being looked up, by host and port. The gate also guards the descriptors of those who wait: once
#: one is closed, its number may belong to somebody else.
_waiting: Final[dict[tuple[str, int], list[Lookup]]] = {}
_gate = threading.Lock()


class Lookup:
    """`fd` has news when `found` is set: addresses in the order in which to try them; empty if nobody knows any."""

    def __init__(self, host: str, port: int) -> None:
        self._key = (host, port)
        self.found: list[Where] | None = None
        self.fd = os.eventfd(0, _EVENT)
        with _gate:
            if self._key not in _waiting:
                self._begin()
            _waiting[self._key].append(self)

    def _begin(self) -> None:
        try:
            threading.Thread(target=_look, args=self._key, name="famulus-lookup", daemon=True).start()
        except RuntimeError as error:
            os.close(self.fd)
            raise OSError(f"no thread to look up {self._key[0]}: {error}") from None
        _waiting[self._key] = []

    def close(self) -> None:
        with _gate:
            if self.fd >= 0:
                os.close(self.fd)
                self.fd = -1

    def abandon(self) -> None:
        """Like `close`, in a child that was forked: there is no other thread, and the gate may be locked for ever."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)


def _look(host: str, port: int) -> None:
    found: list[Where] = []
    try:
        found = _places(host, port, 0)
    except (OSError, UnicodeError):
        pass  # looked up again at the next attempt
    finally:
        with _gate:
            for lookup in _waiting.pop((host, port), []):
                lookup.found = found
                if lookup.fd >= 0:
                    os.eventfd_write(lookup.fd, 1)


def _forget() -> None:
    """A child has none of its parent's threads, and maybe a gate that one of them had locked."""
    global _gate
    _gate = threading.Lock()
    _waiting.clear()


os.register_at_fork(after_in_child=_forget)


def known(host: str, port: int) -> list[Where]:
    """For a numeric host, or for a path, which has no port; empty for a name."""
    if not port:
        return [(int(socket.AF_UNIX), host)]
    with suppress(OSError, UnicodeError):
        return _places(host, port, socket.AI_NUMERICHOST)
    return []


def _places(host: str, port: int, flags: int) -> list[Where]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags)
    return [(int(family), where) for family, _, _, _, where in found]  # type: ignore[misc]
