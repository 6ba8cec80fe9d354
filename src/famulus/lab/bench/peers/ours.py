"""Famulus as a peer: its broker, a worker as a user would write it, its asyncio client."""

from __future__ import annotations

import json
import sys

from famulus import AsyncClient
from famulus.lab.bench import fleet
from famulus.lab.bench.peers import loop, recruit
from famulus.lab.bench.peers.meter import Meter
from famulus.lab.bench.peers.order import Order, read
from famulus.lab.bench.peers.peer import Peer

#: Of every broker here: others write no journal and have no dashboard.
PLAIN = ("--drain-ms", "500", "--no-http", "--no-journal")
#: Of one that stands alone.
ALONE = ("--frontend-port", "0", "--backend-port", "0")


def start(crew: recruit.Crew, window: int, *arguments: str) -> str:
    command = fleet.python("famulus", "broker", *(arguments or ALONE), *PLAIN)
    ready = recruit.server(crew, command, r"clients (\S+), workers (\S+) ")
    # Twice the window, so that it is never the backlog that is measured.
    recruit.worker(crew, fleet.python("famulus.lab.bench.echo_worker", ready[2], str(max(64, 2 * window))))
    return ready[1]


async def client(order: Order) -> Meter:
    async with AsyncClient(order.address) as client:
        if order.style == "request":
            return await loop.ask_in_a_row(order, lambda body: client.request("echo", body))
        meter, stream = order.begin()
        async for answer in client.map("echo", stream, window=order.window, ordered=False):
            meter.note(answer)
        return meter


PEER = Peer("famulus", start, "famulus.lab.bench.peers.ours")

if __name__ == "__main__":
    print(json.dumps(loop.run(client(read(sys.argv[2]))).report()))
