"""One peer, as our steward knows it: where it is, whether it is alive, what it said last."""

from __future__ import annotations

from typing import Final

from famulus.core.clock import NS_PER_S
from famulus.core.config.schema import Broker
from famulus.wire.limits import HEARTBEATS_UNTIL_LOST
from famulus.wire.peers import Beat, Work

BEAT_NS: Final = NS_PER_S
SILENCE_NS: Final = HEARTBEATS_UNTIL_LOST * BEAT_NS
#: Once our connection to it is cut: a peer that is still there is heard within a heartbeat, or makes it anew.
DOUBT_NS: Final = 2 * BEAT_NS


class Peer:
    def __init__(self, identity: str, broker: Broker) -> None:
        self.identity = identity
        self.broker = broker
        self.heard_ns = 0
        self.cut_ns = 0
        self.version = 0
        self.digest = ""
        self.state = "joining"
        self.work: dict[str, Work] = {}

    @property
    def lost_ns(self) -> int:
        """When it counts as lost, unless it is heard before."""
        if self.heard_ns == 0:
            return 0
        silence_ns = self.heard_ns + SILENCE_NS
        return min(silence_ns, self.cut_ns + DOUBT_NS) if self.cut_ns > self.heard_ns else silence_ns

    def alive(self, now_ns: int) -> bool:
        return now_ns < self.lost_ns

    def hear(self, beat: Beat, now_ns: int) -> None:
        self.heard_ns = now_ns
        self.version = beat.version
        self.digest = beat.digest
        self.state = beat.state
        self.work = beat.work

    def load(self) -> float:
        """From 0, nothing to do, upwards: 1 means that all slots are busy, more that tasks wait."""
        busy = sum(work.busy + work.backlog for work in self.work.values())
        slots = sum(work.busy + work.free for work in self.work.values())
        return busy / slots if slots else float(busy > 0)
