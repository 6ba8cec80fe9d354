"""Who is logged in. In memory only; knows no HTTP and no clock: instants and random ids come in.

A session needs two secrets. The id is in a cookie that no script can read, and that a browser sends to every port of a
host; only the pages of this port have the token, and no browser sends it by itself. So neither a page from elsewhere
nor somebody else's port on the same machine has both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from hmac import compare_digest

from famulus.admin.secret import Secret
from famulus.core.clock import NS_PER_S

SESSIONS_MAX = 32
IDLE_NS = 15 * 60 * NS_PER_S
LIFETIME_NS = 8 * 60 * 60 * NS_PER_S


@dataclass(slots=True)
class Session:
    id: str
    token: str
    admin: str
    #: The broker checks it with every request, so a session is only valid as long as its password is.
    password: Secret
    #: The address that it was opened from.
    client: str
    since_ns: int
    used_ns: int

    def left_ns(self, now_ns: int) -> int:
        """How long until it ends, if nobody uses it before then."""
        return min(self.used_ns + IDLE_NS, self.since_ns + LIFETIME_NS) - now_ns

    def __repr__(self) -> str:
        return f"Session({self.admin!r})"


class Sessions:
    def __init__(self, new_id: Callable[[], str]) -> None:
        """`new_id` returns 256 bits that nobody can guess."""
        self._new_id = new_id
        self._by_id: dict[str, Session] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def open(self, admin: str, password: Secret, client: str, now_ns: int, instead_of: str = "") -> Session:
        """Always with a new id, and never two in one browser. If there are too many, the most idle one is ended."""
        self.end(instead_of)
        for each in list(self._by_id.values()):
            if each.left_ns(now_ns) <= 0:
                self.end(each.id)
        if len(self._by_id) >= SESSIONS_MAX:
            self.end(min(self._by_id.values(), key=lambda each: each.used_ns).id)
        session = Session(self._new_id(), self._new_id(), admin, password, client, now_ns, now_ns)
        self._by_id[session.id] = session
        return session

    def find(self, session_id: str, token: str, now_ns: int, *, used: bool) -> Session | None:
        """The session that has both secrets. `used`: somebody did something, so it is not idle."""
        session = self._by_id.get(session_id)
        if session is None or not compare_digest(session.token.encode(), token.encode("utf-8", "replace")):
            return None
        if session.left_ns(now_ns) <= 0:
            self.end(session_id)
            return None
        if used:
            session.used_ns = now_ns
        return session

    def end(self, session_id: str) -> None:
        self._by_id.pop(session_id, None)
