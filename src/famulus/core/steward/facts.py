"""What the steward has to tell its journal: edits and conflicts as they come and go, peers as they are heard and lost,
keys that expire, objectives of services, and who was refused at its ports.

It compares what the steward knows now with what it knew at the last look.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from famulus.core.access import Access
from famulus.core.clock import NS_PER_S
from famulus.core.config import schema
from famulus.core.config.clock import time_ms
from famulus.core.config.edit import SignedEdit
from famulus.core.objective import ObjectiveFacts
from famulus.wire.rows import ConfigRow, PeerRow, Row

if TYPE_CHECKING:
    from famulus.core.config.effective import Conflict
    from famulus.core.steward.peer import Peer
    from famulus.core.steward.steward import Steward

#: How often the load of each peer is recorded.
LOAD_NS: Final = 10 * NS_PER_S
#: For edits, at once; pulling a whole network may bring more.
ROWS_MAX: Final = 100_000
#: How often what was refused is recorded.
ACCESS_NS: Final = NS_PER_S
#: A journal is kept for days, and keys are valid for years: so what expires is recorded again and again.
EXPIRES_NS: Final = 24 * 3600 * NS_PER_S
#: The end of the year 9999: many who read a journal know no later one.
INSTANT_MS_MAX: Final = 253_402_300_799_999
INT_MAX: Final = (1 << 31) - 1


class StewardFacts:
    def __init__(self, core: Steward) -> None:
        self._core = core
        self._alive: set[str] = set()
        self._conflicts = {conflict.key: conflict for conflict in core.config.conflicts}
        self._load_ns = self._access_ns = self._expires_ns = 0
        self._objectives = ObjectiveFacts()
        self.access = Access()

    def look(self, now_ns: int) -> list[Row]:
        """What is new; call this after each pass."""
        core = self._core
        rows: list[Row] = []
        if core.taken:
            rows += self._edits(core.taken, now_ns) + self._changed_conflicts(now_ns)
            core.taken.clear()
        alive = {peer.identity: peer for peer in core.alive(now_ns)}
        for identity in sorted(alive.keys() - self._alive):
            rows.append(PeerRow(now_ns, identity.encode(), b"heard"))
        for identity in sorted(self._alive - alive.keys()):
            rows.append(PeerRow(now_ns, identity.encode(), b"lost"))
        self._alive = set(alive)
        if now_ns >= self._load_ns:
            self._load_ns = now_ns + LOAD_NS
            rows += [_load(now_ns, peer) for peer in alive.values()]
        if now_ns >= self._access_ns:
            self._access_ns = now_ns + ACCESS_NS
            rows += self.access.take(now_ns)
        if now_ns >= self._expires_ns:
            self._expires_ns = now_ns + EXPIRES_NS
            rows += self._expiring(now_ns)
        rows += self._objectives.look(core.config.objectives, now_ns)[:ROWS_MAX]
        return rows

    def _expiring(self, now_ns: int) -> list[ConfigRow]:
        principals = self._core.config.principals
        keys = [f"principal/{name}" for name, principal in principals.items() if principal.expires_ms]
        return [self._edit(b"expires", _highest(self._core, key), now_ns) for key in keys[:ROWS_MAX]]

    def _edits(self, taken: Sequence[SignedEdit], now_ns: int) -> list[ConfigRow]:
        own = self._core.me.name
        return [
            self._edit(b"accepted" if signed.edit.broker == own else b"applied", signed, now_ns)
            for signed in taken[:ROWS_MAX]
        ]

    def _changed_conflicts(self, now_ns: int) -> list[ConfigRow]:
        core = self._core
        rows = []
        conflicts = {conflict.key: conflict for conflict in core.config.conflicts}
        for key, conflict in conflicts.items():
            former = self._conflicts.get(key)
            if former is None or _heads(former) != _heads(conflict):
                rows.append(self._edit(b"conflict", _highest(core, key), now_ns))
        over = self._conflicts.keys() - conflicts.keys()
        rows += [self._edit(b"resolved", _highest(core, key), now_ns) for key in over]
        self._conflicts = conflicts
        return rows

    def _edit(self, event: bytes, signed: SignedEdit, now_ns: int) -> ConfigRow:
        edit, edits = signed.edit, self._core.edits
        return ConfigRow(
            now_ns,
            event,
            signed.id.encode(),
            edit.key.encode(),
            edit.author.encode(),
            accepted_by=edit.broker.encode(),
            edited=time_ms(edit.hlc) * 1000,
            version=edits.version,
            digest=edits.digest.encode(),
            expires=_expires_us(signed),
        )


def _expires_us(signed: SignedEdit) -> int:
    """Of a principal that expires; 0 for anything else."""
    edit = signed.edit
    about = schema.subject(edit.key)
    found = schema.read(about, edit.value).value if about.kind == "principal" else None
    expires_ms = found.expires_ms if isinstance(found, schema.Principal) else 0
    return expires_ms * 1000 if expires_ms <= INSTANT_MS_MAX else 0


def _heads(conflict: Conflict) -> set[str]:
    return {head.id for head in conflict.heads}


def _highest(core: Steward, key: str) -> SignedEdit:
    return max(core.edits.heads(key), key=lambda signed: (signed.edit.hlc, signed.id))


def _load(now_ns: int, peer: Peer) -> PeerRow:
    free, busy, backlog = (min(count, INT_MAX) for count in (peer.slots.free, peer.slots.busy, peer.backlog))
    return PeerRow(now_ns, peer.identity.encode(), b"load", free, busy, backlog)
