"""Decides whom to ignore: workers that keep breaking the protocol. Reads no clock.

A few faults are forgiven. After that, each fault gets the sender ignored for a time that doubles, up to a bound;
whoever behaves for long enough starts afresh. The list is bounded: when it is full, the oldest entry makes room. In
addition there are those that the config names: they are ignored until it no longer names them.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from famulus.core.clock import NS_PER_S
from famulus.core.dispatch.strangers import readable

FAULTS_FORGIVEN = 3
PENALTY_FIRST_NS = 1 * NS_PER_S
PENALTY_MAX_NS = 300 * NS_PER_S
FORGOTTEN_AFTER_NS = 600 * NS_PER_S
ENTRIES_MAX = 10_000
LISTED_MAX = 100


@dataclass(slots=True)
class _Offender:
    faults: int
    last_ns: int
    until_ns: int


class ErrorWorkers:
    """By identity, or, for those that never said who they are, by the name of their connection."""

    def __init__(self) -> None:
        self._entries: OrderedDict[bytes, _Offender] = OrderedDict()
        #: Identities that the config names.
        self.named: frozenset[bytes] = frozenset()

    def fault(self, name: bytes, now_ns: int) -> bool:
        """Note a fault; True if the sender is to be ignored from now on."""
        entry = self._entries.get(name)
        if entry is None or entry.last_ns + FORGOTTEN_AFTER_NS <= now_ns:
            entry = self._entries[name] = _Offender(0, now_ns, 0)
            if len(self._entries) > ENTRIES_MAX:
                self._entries.popitem(last=False)
        entry.faults += 1
        entry.last_ns = now_ns
        self._entries.move_to_end(name)
        beyond = entry.faults - FAULTS_FORGIVEN
        if beyond <= 0:
            return False
        entry.until_ns = now_ns + min(PENALTY_FIRST_NS << min(beyond - 1, 20), PENALTY_MAX_NS)
        return True

    def ignored_for_ns(self, name: bytes, now_ns: int) -> int:
        """How much longer this sender is ignored; 0 if it is not."""
        entry = self._entries.get(name)
        return max(0, entry.until_ns - now_ns) if entry is not None else 0

    def clear(self, name: bytes) -> None:
        """Forget the one with the name that `listed` gives, or all of them if it is empty."""
        for each in [each for each in self._entries if name in (b"", readable(each).encode())]:
            del self._entries[each]

    def listed(self, now_ns: int) -> list[tuple[str, int, int]]:
        """Who is on the list, with the number of faults and the seconds left; most faults first."""
        found = [
            (readable(name), entry.faults, -(-max(0, entry.until_ns - now_ns) // NS_PER_S))
            for name, entry in self._entries.items()
        ]
        return sorted(found, key=lambda each: (-each[1], each[0]))[:LISTED_MAX]

    def __bool__(self) -> bool:
        return bool(self._entries)
