"""The bodies of a `map`, each with its number and, if its caller has one for it, its message_id. Knows no sockets.

A mistake in the ids ends the bodies. It is raised once everything before it has been answered, so no answer is lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count, repeat
from typing import Any, Final

from famulus.client.rules import checked_message_id
from famulus.core.session.client import Done

_END: Final[Any] = object()


class NamedBodies:
    def __init__(self, bodies: Iterable[Any], message_ids: Iterable[str] | None) -> None:
        if isinstance(message_ids, str | bytes):
            raise TypeError("message_ids has one id for each body, and is not a single text")
        #: What is left of them; an id is empty if the broker should make one. It must not be iterated anew.
        self.left: Iterator[tuple[int, Any, str]] = (
            zip(count(), bodies, repeat(""), strict=False)
            if message_ids is None
            else self._in_step(bodies, iter(message_ids))
        )
        self._open: set[str] = set()
        self._mistake: Exception | None = None

    def answered(self, ready: list[Done]) -> None:
        """From now on their ids may come again."""
        if self._open:
            self._open.difference_update([done.message_id for done in ready])

    def check(self) -> None:
        """Raises what was wrong with an id, if anything was."""
        if self._mistake is not None:
            raise self._mistake

    def _in_step(self, bodies: Iterable[Any], message_ids: Iterator[Any]) -> Iterator[tuple[int, Any, str]]:
        number = -1
        for number, body in enumerate(bodies):
            message_id: Any = next(message_ids, _END)
            self._mistake = self._wrong_with(message_id, number)
            if self._mistake is not None:
                return
            self._open.add(message_id)
            yield number, body, message_id
        if next(message_ids, _END) is not _END:
            self._mistake = ValueError(f"message_ids goes on after the last body; there are {number + 1} bodies")

    def _wrong_with(self, message_id: Any, number: int) -> Exception | None:
        if message_id is _END:
            return ValueError(f"message_ids ends after {number}, and there are more bodies than that")
        where = f"body {number}, counted from 0"
        try:
            checked_message_id(message_id)
        except (TypeError, ValueError) as error:
            return type(error)(f"{error}; it is that of {where}")
        if message_id in self._open:
            return ValueError(f"{where}, has the message_id {message_id!r} of a task that is still open")
        return None
