"""Who can reach whom: every broker, worker and client has a place, and the network between places may be parted."""

from __future__ import annotations

from dataclasses import dataclass

from famulus.lab.sim.network import Clock


@dataclass(frozen=True, slots=True)
class Part:
    """Those on the one side cannot reach those on the other until then."""

    one: frozenset[str]
    other: frozenset[str]
    until_ns: int

    def lies_between(self, a: str, b: str) -> bool:
        return (a in self.one and b in self.other) or (b in self.one and a in self.other)


class Ground:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._parts: list[Part] = []

    def part(self, one: frozenset[str], other: frozenset[str], for_ns: int) -> Part:
        part = Part(one, other, self._clock.now_ns + for_ns)
        self._parts.append(part)
        return part

    def apart_until_ns(self, a: str, b: str) -> int:
        """When these two can reach each other again; 0 if they can now."""
        now_ns = self._clock.now_ns
        self._parts = [part for part in self._parts if part.until_ns > now_ns]
        return max((part.until_ns for part in self._parts if part.lies_between(a, b)), default=0)
