"""Decides which free slot of a service is used next: the one that has been free longest. Knows no tasks."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from famulus.core.dispatch.session import Session


class LRU:
    """The sessions with a free slot, least recently used first.

    A session stands here once however many slots it has free, and goes to the end with each use, so that all workers
    get their share. A worker of several services may have given its last slot to another of them: it is passed over
    when it is met (and noted in its `unlisted`), since finding it in every LRU at every use would cost each task.
    """

    __slots__ = ("_first", "_line")

    def __init__(self) -> None:
        self._line: OrderedDict[Session, None] = OrderedDict()
        #: The first one in line, if that is known: who is alone there need not be looked for each time.
        self._first: Session | None = None

    def offer(self, session: Session) -> None:
        assert session.free
        self._line[session] = None

    def take(self) -> Session | None:
        """Take one slot of the least recently used session, or None if no slot is free."""
        line = self._line
        while line:
            session = self._first
            if session is None:
                session = self._first = next(iter(line))
            if not session.free:
                self.withdraw(session)
                continue
            session.free -= 1
            if not session.free:
                self.withdraw(session)
            elif len(line) > 1:
                line.move_to_end(session)
                self._first = None
            return session
        return None

    def withdraw(self, session: Session) -> None:
        if session in self._line:
            del self._line[session]
            self._first = None
            session.unlisted.append(self)

    def __contains__(self, session: Session) -> bool:
        return session in self._line

    def __iter__(self) -> Iterator[Session]:
        return iter(self._line)
