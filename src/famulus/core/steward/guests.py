"""Decides which connections of other brokers end: those whose key is no broker's any more, nor that of a joining one.

Whoever is about to be cut may first read why: the news that a broker was forgotten goes to that broker as well. So a
connection ends when its key is known neither at one look nor at the next.
"""

from __future__ import annotations

from collections.abc import Container, Iterable


class Guests:
    """Those who were let in at one listener."""

    def __init__(self) -> None:
        #: The key of each. As many as the listener has connections.
        self._keys: dict[bytes, bytes] = {}
        self._doubted: set[bytes] = set()

    def look(
        self, come: Iterable[tuple[bytes, str, bytes]], gone: Iterable[bytes], known: Container[bytes]
    ) -> list[bytes]:
        """Who has come and who is gone since the last look, and whose keys are known: whom to cut.

        An empty key is that of those who have none.
        """
        for peer, _, key in come:
            self._keys[peer] = key
        for peer in gone:
            self._keys.pop(peer, None)
        doubted = {peer for peer, key in self._keys.items() if key not in known}
        unwelcome = sorted(doubted & self._doubted)
        self._doubted = doubted
        return unwelcome
