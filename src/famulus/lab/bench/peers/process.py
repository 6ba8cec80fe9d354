"""One process of a peer.

python -m famulus.lab.bench peers.process PEER worker ARGUMENT...
python -m famulus.lab.bench peers.process PEER client ORDER
"""

from __future__ import annotations

import json

from famulus.lab.bench import meter
from famulus.lab.bench.peers.peer import run
from famulus.lab.bench.peers.side import PEERS


def main(name: str, role: str, *arguments: str) -> None:
    peer = PEERS[name]
    if role == "client":
        print(json.dumps(run(peer.client(meter.read(*arguments))).report()))
    else:
        run(peer.roles[role](*arguments))
