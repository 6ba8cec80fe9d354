"""What the client process of a side is told, as one argument in JSON."""

from __future__ import annotations

from collections.abc import Iterator
from time import monotonic_ns

import msgspec

from famulus.core.clock import NS_PER_S
from famulus.lab.bench.load import WARM_UP_S, bodies
from famulus.lab.bench.peers.meter import Meter


class Order(msgspec.Struct, frozen=True):
    address: str
    window: int
    size: int
    seconds: float
    #: One of those that the peer offers: `request`, `map`, ...
    style: str
    #: The processes to weigh, by their part: server, worker.
    pids: dict[str, list[int]]

    def text(self) -> str:
        return msgspec.json.encode(self).decode()

    def begin(self) -> tuple[Meter, Iterator[bytes]]:
        """From now on: a meter, and bodies until the time is over."""
        from_ns = monotonic_ns() + int(WARM_UP_S * NS_PER_S)
        until_ns = from_ns + int(self.seconds * NS_PER_S)
        return Meter(from_ns, until_ns, self.size, self.pids), bodies(self.size, until_ns)


def read(text: str) -> Order:
    return msgspec.json.decode(text, type=Order)
