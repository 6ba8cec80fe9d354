"""Who was refused what, and who called how much: gathered for a while, so that one row stands for many equal events.

Anybody can be refused as often as they like, each time with another key or for another service. That must fill neither
memory nor the journal: only so many different refusals are gathered, and of one principal, or of all strangers
together, only some. The rest is counted together, as OTHERS.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from famulus.wire.rows import AccessRow

# Where somebody came to.
FRONTEND: Final = b"frontend"
BACKEND: Final = b"backend"
PEER: Final = b"peer"
CONFIG_PUB: Final = b"config_pub"
ADMIN: Final = b"admin"

# What was wanted.
CONNECT: Final = b"connect"
CALL: Final = b"call"
SERVE: Final = b"serve"
DELEGATE: Final = b"delegate"
JOIN: Final = b"join"
MANAGE: Final = b"manage"

# Why it was refused, besides the codes of `famulus.wire.reasons`.
NO_KEY: Final = b"no_key"
#: Also one that has expired, or was revoked.
UNKNOWN_KEY: Final = b"unknown_key"
#: It speaks something else than ZMTP, or does not know our key.
FOREIGN: Final = b"foreign"
#: It did not say in time who it is.
SILENT: Final = b"silent"

#: Instead of addresses, or of services, of which there were too many.
OTHERS: Final = b"*"
#: Between two looks.
REFUSALS_MAX: Final = 500
REFUSALS_OF_ONE_MAX: Final = 20
USES_MAX: Final = 2000
#: The last ones, for people.
RECENT_MAX: Final = 20
#: Different ones that a listener gathers.
TURNED_AWAY_MAX: Final = 100


class Refusal(NamedTuple):
    port: bytes
    wanted: bytes
    #: A code.
    why: bytes
    #: Empty for one whom we do not know.
    principal: bytes = b""
    #: An unknown one.
    key: bytes = b""
    address: bytes = b""
    service: bytes = b""


class TurnedAway(NamedTuple):
    """One who never got a connection."""

    why: bytes
    address: bytes
    key: bytes = b""


class RecentRefusal:
    """A refusal that was seen not long ago."""

    __slots__ = ("at_ns", "times")

    def __init__(self) -> None:
        #: The last time.
        self.at_ns = 0
        self.times = 0


class Use:
    """What a principal called of a service."""

    __slots__ = ("busy_ns", "request_bytes", "response_bytes", "tasks")

    def __init__(self) -> None:
        self.tasks = 0
        self.request_bytes = 0
        self.response_bytes = 0
        self.busy_ns = 0


class Access:
    def __init__(self, on: bool = True) -> None:
        """`on`: somebody wants the rows. The last refusals are always known."""
        self._on = on
        self._refusals: dict[Refusal, int] = {}
        #: How many of these each principal has; those of strangers have no name.
        self._refusals_of: dict[bytes, int] = {}
        #: By principal and service.
        self._uses: dict[tuple[bytes, bytes], Use] = {}
        #: The latest is the last one.
        self.recent: dict[Refusal, RecentRefusal] = {}

    def refuse(self, refusal: Refusal, now_ns: int, times: int = 1) -> None:
        self._remember(refusal, now_ns, times)
        if not self._on:
            return
        if refusal not in self._refusals:
            refusal = self._bounded(refusal)
        self._refusals[refusal] = self._refusals.get(refusal, 0) + times

    def turn_away(self, port: bytes, turned_away: dict[TurnedAway, int], now_ns: int) -> None:
        """Those whom a listener has not let in; empties its list."""
        for (why, address, key), times in turned_away.items():
            self.refuse(Refusal(port, CONNECT, why, b"", key.hex().encode(), address), now_ns, times)
        turned_away.clear()

    def use(self, principal: bytes, service: bytes) -> Use:
        """Where to count what this principal calls of this service."""
        found = self._uses.get((principal, service))
        if found is None:
            if len(self._uses) >= USES_MAX:
                service = OTHERS
            found = self._uses.setdefault((principal, service), Use())
        return found

    def take(self, now_ns: int) -> list[AccessRow]:
        """What happened since the last look."""
        rows = [
            AccessRow(now_ns, each.port, each.wanted, each.why, each.principal, each.key, each.address, each.service, n)
            for each, n in self._refusals.items()
        ]
        for (principal, service), use in self._uses.items():
            counted = (use.tasks, use.request_bytes, use.response_bytes, use.busy_ns)
            rows.append(AccessRow(now_ns, FRONTEND, CALL, b"", principal, b"", b"", service, *counted))
        self._refusals.clear()
        self._refusals_of.clear()
        self._uses.clear()
        return rows

    def _bounded(self, refusal: Refusal) -> Refusal:
        port, wanted, why, principal = refusal.port, refusal.wanted, refusal.why, refusal.principal
        if len(self._refusals) >= REFUSALS_MAX:
            return Refusal(port, wanted, why, address=OTHERS)
        count = self._refusals_of.get(principal, 0)
        if count >= REFUSALS_OF_ONE_MAX:
            return Refusal(port, wanted, why, principal, address=OTHERS)
        self._refusals_of[principal] = count + 1
        return refusal

    def _remember(self, refusal: Refusal, now_ns: int, times: int) -> None:
        recent = self.recent.pop(refusal, None)
        if recent is None:
            recent = RecentRefusal()
            if len(self.recent) >= RECENT_MAX:
                del self.recent[next(iter(self.recent))]
        recent.at_ns = now_ns
        recent.times += times
        self.recent[refusal] = recent


def note_turned_away(turned_away: dict[TurnedAway, int], one: TurnedAway) -> None:
    """For a listener, whose list may be full before its owner looks at it."""
    if one not in turned_away and len(turned_away) >= TURNED_AWAY_MAX:
        one = TurnedAway(one.why, OTHERS)
    turned_away[one] = turned_away.get(one, 0) + 1
