"""Serves admins over HTTP: remembers who is logged in, and asks the steward. Never blocks the event loop.

The herald knows no hashes. Each request goes to the steward with the name and the password of the admin, like those of
the command line, over a socket inside the broker; the steward checks them each time, which is slow on purpose.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable
from functools import partial
from time import monotonic_ns
from typing import Any, TypeVar

from famulus.admin.administration import Administration
from famulus.admin.connection import AdminConnection
from famulus.admin.secret import Secret
from famulus.core.clock import NS_PER_S
from famulus.core.steward.commands import WRONG_PASSWORD
from famulus.errors import NoBroker, NotAllowed
from famulus.web import threads
from famulus.web.sessions import Session, Sessions
from famulus.web.status.board import NO_SUPERVISOR, Board
from famulus.web.turnstile import Turnstile

log = logging.getLogger("famulus.broker")

CONNECT_S = 3.0
ANSWER_S = 20.0
#: Each login keeps the steward busy for some 60 ms; a flood of them must leave it most of its time.
LOGINS_AT_ONCE = 2
LOGINS_IN_A_ROW = 5
LOGIN_DISTANCE_NS = 1 * NS_PER_S
ACTIONS_AT_ONCE = 4

_Result = TypeVar("_Result")


class Busy(Exception):
    """Too many at once: come back in a moment."""


class SessionOver(Exception):
    """The name and the password that it was opened with are not valid any more."""


class Office:
    def __init__(self, board: Board, admins_at: str, clock: Callable[[], int] = monotonic_ns) -> None:
        """`admins_at`: the steward's socket for admins; empty if there is none."""
        self._board = board
        self._admins_at = admins_at
        self._clock = clock
        self.sessions = Sessions(partial(secrets.token_urlsafe, 32))
        self._logins = Turnstile(LOGINS_AT_ONCE, in_a_row=LOGINS_IN_A_ROW, distance_ns=LOGIN_DISTANCE_NS)
        self._actions = Turnstile(ACTIONS_AT_ONCE)

    def closed_because(self) -> str:
        """Why nobody can log in; empty if admins can."""
        supervisor = self._board.supervisor
        if supervisor is NO_SUPERVISOR:
            return "the broker has not said yet whether it belongs to a network"
        if not supervisor.network or not self._admins_at:
            return "this broker stands alone: only a network has admins (famulus init makes one)"
        return ""

    async def log_in(self, name: str, password: Secret, client: str, instead_of: str) -> Session:
        """`client`: the address it comes from, by which wrong passwords have to wait.

        Raises NotAllowed with the steward's own words, if it does not accept the name and the password.
        """
        await self._in_thread(self._logins, lambda: self._ask(name, password, client, _knock))
        log.info("admin %r logged in at the HTTP port, from %s", name, client)
        return self.sessions.open(name, password, client, self._clock(), instead_of)

    def find(self, session_id: str, token: str, *, used: bool) -> Session | None:
        return self.sessions.find(session_id, token, self._clock(), used=used)

    def left_s(self, session: Session) -> int:
        return max(0, session.left_ns(self._clock()) // NS_PER_S)

    def log_out(self, session: Session) -> None:
        self.sessions.end(session.id)
        log.info("admin %r logged out at the HTTP port", session.admin)

    async def do(self, session: Session, action: Callable[[Administration], _Result]) -> _Result:
        try:
            return await self._in_thread(
                self._actions, lambda: self._ask(session.admin, session.password, session.client, action)
            )
        except NotAllowed as error:
            # Either this admin may not do this, or the password has been changed.
            if WRONG_PASSWORD not in error.reason:
                raise
            self.sessions.end(session.id)
            raise SessionOver(error.reason) from None

    # -- in threads ---------------------------------------------------------------------------------------------

    def _ask(self, name: str, password: Secret, client: str, action: Callable[[Administration], _Result]) -> _Result:
        with AdminConnection(self._admins_at, connect_s=CONNECT_S, answer_s=ANSWER_S) as connection:

            def ask(command: str, arguments: dict[str, Any]) -> bytes:
                return connection.ask(name, password, command, {**arguments, "client": client})

            return action(Administration(ask))

    async def _in_thread(self, turnstile: Turnstile, work: Callable[[], _Result]) -> _Result:
        """The turnstile's place is taken until the thread is done, even if whoever asked leaves earlier."""
        if not turnstile.enter(self._clock()):
            raise Busy
        try:
            working = threads.start(work, "admin")
        except RuntimeError:  # the system gives us no more threads
            turnstile.leave()
            raise Busy from None
        working.add_done_callback(lambda _: turnstile.leave())
        return await asyncio.shield(working)


def _knock(administration: Administration) -> None:
    """The cheapest question that needs a password."""
    administration.seen(())


def words_of(error: NoBroker) -> str:
    """The error in words, without the address of a socket inside the broker."""
    done = "; what was asked for may have been done: check it" if "may have been done" in str(error) else ""
    return f"the steward of this broker does not answer{done}"
