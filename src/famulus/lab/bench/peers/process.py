"""One process of a peer.

python -m famulus.lab.bench peers.process PEER worker ARGUMENT...
python -m famulus.lab.bench peers.process PEER client ORDER
"""

from __future__ import annotations

import json

import msgspec

from famulus.lab.bench.meter import Order
from famulus.lab.bench.peers.peer import run
from famulus.lab.bench.peers.side import PEERS


def main(name: str, role: str, *arguments: str) -> None:
    peer = PEERS[name]
    if role == "client":
        (order,) = arguments
        print(json.dumps(run(peer.client(msgspec.json.decode(order, type=Order))).report()))
    else:
        run(peer.roles[role](*arguments))
