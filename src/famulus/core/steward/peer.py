"""One peer, as our steward knows it: where it is, whether it is alive, what it said last."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from famulus.core.clock import NS_PER_S
from famulus.core.config.schema import Broker
from famulus.core.load import load
from famulus.wire.limits import HEARTBEATS_UNTIL_LOST
from famulus.wire.peers import Beat, Place, Slots, Work

BEAT_NS: Final = NS_PER_S
SILENCE_NS: Final = HEARTBEATS_UNTIL_LOST * BEAT_NS
#: After our connection to it is cut: a peer that is still there is heard within a heartbeat, or connects again.
DOUBT_NS: Final = 2 * BEAT_NS
#: What takes effect only when a broker is restarted: until then it listens where it did.
FIELDS: Final = Place.__struct_fields__


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
        self.slots = Slots(0, 0)
        #: Where it listens, as it last said; None as long as it has not.
        self.place: Place | None = None
        self.dashboard = ""

    @property
    def located(self) -> Broker:
        """As the config has it, but with where it actually listens."""
        return placed(self.broker, self.place)

    def reach(self, now_ns: int) -> Broker:
        """Where to try to connect to it.

        While it is heard, that is where it says. One that is lost may have been restarted and listen where the config
        says, or be cut off and listen where it did before: so we try both in turn.
        """
        turn = (now_ns - self.lost_ns) // SILENCE_NS
        return self.located if self.alive(now_ns) or turn % 2 else self.broker

    @property
    def lost_ns(self) -> int:
        """When it will count as lost, unless it is heard before."""
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
        self.slots = beat.slots or _counted_by_service(beat.work)
        self.place = beat.place
        self.dashboard = beat.dashboard

    @property
    def backlog(self) -> int:
        return sum(work.backlog for work in self.work.values())

    def load(self) -> float:
        return load(self.slots.free, self.slots.busy, self.backlog)


def placed(broker: Broker, place: Place | None) -> Broker:
    """The broker as the config has it, but at this place; where the config says, if `place` is None."""
    if place is None:
        return broker
    return replace(broker, **{field: getattr(place, field) or getattr(broker, field) for field in FIELDS})


def changes_at_start(wanted: Broker, now: Broker) -> str:
    """Which fields will take effect when the broker is restarted, in words; empty if there are none."""
    fields = [field for field in FIELDS if getattr(wanted, field) != getattr(now, field)]
    if not fields:
        return ""
    kept = ", ".join(f"{field}={getattr(now, field)}" for field in fields)
    return f"{' and '.join(fields)} will count from the broker's next start: restart it; until then it keeps {kept}"


def offers_more(now: dict[str, Work], before: dict[str, Work]) -> bool:
    """Whether there is a service with slots that had none."""
    return any(_has_slots(work) and not _has_slots(before.get(name)) for name, work in now.items())


def _has_slots(work: Work | None) -> bool:
    return work is not None and work.free + work.busy > 0


def _counted_by_service(work: dict[str, Work]) -> Slots:
    """The best guess for a broker of an older version, which does not say how many slots it has in total."""
    return Slots(sum(each.free for each in work.values()), sum(each.busy for each in work.values()))
